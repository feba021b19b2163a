; What carries the steps that are hard for the solver. Without these lines the proof is the same, and slower.

(because conclude waited-out-is-over unheld-is-over neighbours leases-two-back-are-over stale-lives-unanswered blocked
  lease-in-its-version only-chosen-is-used enquiry-is-own enquires-in-known begun one-per-version versions-to-latest
  lives-in-order lease-has-basis answers-in-past-versions)
(because time heart noted-before-now)
(because time drains noted-before-now)
