// The page: what is there for everybody at once, what is for reviewers when they open it.

function dropSection(name) {
  document.getElementById(name).remove();
  document.querySelector(`[data-needs="${name}"]`).remove();
}

function themed() {
  const button = document.getElementById("theme");
  const dark = () =>
    (document.documentElement.dataset.theme ??
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const tell = () => button.setAttribute("aria-pressed", String(dark()));
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  tell();
}

themed();
showTables();
if (data.distributions.length) showDistributions();
else dropSection("distributions");

let reviewed = false;
function review() {
  if (reviewed) return;
  reviewed = true;
  if (data.adaptive) showRounds(data.adaptive);
  else document.getElementById("rounds").remove();
  showErrors();
  showAllocation();
  if (data.curve.epsilon.length) showWhatIf();
  else document.getElementById("whatif").remove();
}
const reviewers = document.getElementById("reviewers");
reviewers.addEventListener("toggle", () => reviewers.open && review());
if (reviewers.open) review();
