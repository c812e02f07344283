// Runs before the page is painted: the colours that were chosen, or those of the system.
(() => {
  try {
    const chosen = localStorage.getItem("superopt-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* storage is off: the system decides */ }
})();
