// Moves the bound of each stored path: table, sentence and ring follow the slider. Everything comes from the data block.
(function () {
  "use strict";

  var DASH = "–", MINUS = "−";

  function number(value) {
    if (Math.abs(value) >= 1000 && Number.isInteger(value)) {
      return value.toLocaleString("en-US").replace(/,/g, "\u202f");
    }
    return String(Number(value.toPrecision(4)));
  }

  function shown(value, unit, points) {
    if (value === null) { return DASH; }
    if (unit === "number") { return number(value).replace("-", MINUS); }
    var percent = 100 * value;
    var digits = Math.abs(percent - Math.round(percent)) < 1e-9 ? 0 : Math.abs(percent) < 1 ? 2 : 1;
    var text = percent.toFixed(digits);
    return (Number(text) === 0 ? text.replace("-", "") : text.replace("-", MINUS)) + (points || unit === "points" ? " points" : "\u00a0%");
  }

  function put(id, text) {
    var place = document.getElementById(id);
    if (place) { place.textContent = text; }
  }

  function prepare(box) {
    var id = box.getAttribute("data-path");
    var data = JSON.parse(document.getElementById(id + "-data").textContent);
    var slider = document.getElementById(id + "-slider");
    var ring = document.getElementById(id + "-ring");
    var line = document.getElementById(id + "-line");

    function show() {
      var i = Number(slider.value);
      var asked = data.sign + shown(data.values[i], data.unit);
      var state = data.met[i] ? "met on the training rows" : "NOT met on the training rows";
      slider.setAttribute("aria-valuetext", asked);
      put(id + "-said", "Bound " + asked + ": " + state + ".");
      var spread = data.error[i] === null ? "" : " ± " + shown(data.error[i], data.objectiveUnit, true);
      put(id + "-objective", shown(data.objective[i], data.objectiveUnit) + spread);
      data.rules.forEach(function (rule, j) {
        put(id + "-rate-" + j, shown(rule.rate[i], rule.unit));
        put(id + "-bound-" + j, rule.bound[i] === null ? DASH
          : rule.sign[i] + " " + shown(rule.bound[i], rule.unit) + (rule.kept[i] ? " ✓ kept" : " ✗ missed"));
      });
      line.setAttribute("x1", data.x[i]);
      line.setAttribute("x2", data.x[i]);
      ring.setAttribute("cx", data.x[i]);
      if (data.y[i] !== null) { ring.setAttribute("cy", data.y[i]); }
    }

    slider.addEventListener("input", show);
    document.getElementById(id + "-control").hidden = false;
    show();
  }

  document.documentElement.classList.add("scripted");
  Array.prototype.forEach.call(document.querySelectorAll("[data-path]"), prepare);

  // A printed page shows what is folded away on the screen.
  window.addEventListener("beforeprint", function () {
    Array.prototype.forEach.call(document.querySelectorAll("details"), function (part) {
      part.setAttribute("data-was-open", part.open);
      part.open = true;
    });
  });
  window.addEventListener("afterprint", function () {
    Array.prototype.forEach.call(document.querySelectorAll("details"), function (part) {
      part.open = part.getAttribute("data-was-open") === "true";
    });
  });
}());
