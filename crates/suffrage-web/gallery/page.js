// The gallery: a player for each run, built when it is first seen.

import { element, themeButton } from "../shared/base.js";
import { play } from "../player/player.js";

themeButton(document.getElementById("theme"));

/// A run is decoded and drawn only when its place comes near the screen.
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    observer.unobserve(entry.target);
    const source = document.querySelector(`script[data-run="${CSS.escape(entry.target.dataset.shows)}"]`);
    const root = element("div");
    entry.target.replaceChildren(root);
    play(root, source, { compact: true });
  }
}, { rootMargin: "600px" });
document.querySelectorAll("[data-shows]").forEach((place) => observer.observe(place));
