// Fills the list of versions from versions.json, which lies beside the folders of all versions where the site is published.
// A local build has no such file, and shows its own version alone.
document.addEventListener("DOMContentLoaded", function () {
  var list = document.getElementById("versions");
  if (!list || location.protocol === "file:") { return; }
  var above = list.dataset.root + "../";
  fetch(above + "versions.json").then(function (answer) { return answer.ok ? answer.json() : []; }).then(function (folders) {
    var here = new URL(list.dataset.root, location.href).pathname.split("/").filter(Boolean).pop();
    if (!folders.length) { return; }
    list.replaceChildren.apply(list, folders.map(function (folder) {
      return new Option(folder, folder, folder === here, folder === here);
    }));
    list.addEventListener("change", function () {
      var page = above + list.value + "/" + list.dataset.page;
      // A page that the other version does not have leads to its first page.
      fetch(page, { method: "HEAD" }).then(function (answer) {
        location.href = answer.ok ? page : above + list.value + "/index.html";
      });
    });
  }).catch(function () {});
});
