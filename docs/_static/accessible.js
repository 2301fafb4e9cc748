// What the theme leaves out for people who use a keyboard or a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  const label = (selector, attribute, value) =>
    document.querySelectorAll(selector).forEach((element) => element.setAttribute(attribute, value));
  label(".caption[role=heading]", "aria-level", "2");
  label(".sidebar-drawer", "aria-label", "All pages");
  label(".toc-drawer", "aria-label", "On this page");
  label(".content-icon-container", "role", "navigation");
  label(".content-icon-container", "aria-label", "This page");
  // References are items of a list; the roles that docutils gives them are deprecated.
  label(".citation-list > .citation", "role", "listitem");
  document.querySelectorAll("[role=doc-backlink]").forEach((link) => link.removeAttribute("role"));
  // The words of a thumbnail's link are drawn by its caption, and hidden in the link.
  document.querySelectorAll(".sphx-glr-thumbcontainer a").forEach((link) => link.setAttribute("aria-label", link.textContent));
  if (!document.querySelector("h1")) {
    const title = document.createElement("h1");
    title.textContent = document.title.split(" - ")[0];
    document.querySelector("article")?.prepend(title);
  }
  // Who has no mouse scrolls a wide block by its arrow keys, once it can be reached.
  const reachable = () =>
    document.querySelectorAll("pre, .table-wrapper, .math-block, .output").forEach((block) => {
      if (block.scrollWidth > block.clientWidth || block.scrollHeight > block.clientHeight) block.tabIndex = 0;
      else block.removeAttribute("tabindex");
    });
  reachable();
  addEventListener("load", reachable); // buttons and pictures change the room
  addEventListener("resize", reachable);
});
