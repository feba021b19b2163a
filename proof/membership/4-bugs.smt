; Deliberate bugs of changes. Those of the lease itself are in the model `lease`.

(sizes (Configuration 4) (Majority 4) (Voter 3))

; ---- The wait ------------------------------------------------------------------------------------------------------------

(bug skip-wait "A voter accepts a successor while leases of the version before may be believed in."
  (in accept-change (drop drained))
  (breaks accept-change closed-is-over))
(bug uncommitted-base "A voter accepts a successor of a version that it has not installed: it goes on granting in older ones."
  (in accept-change (drop installed))
  (breaks accept-change closed-is-installed closed-is-over))
(bug two-at-once "A configuration is chosen whose base a majority has not installed."
  (in choose (drop majority))
  (breaks choose blocked))
(bug change-while-silent "A voter that is silent after a restart accepts a successor: it has forgotten when it is drained."
  (in accept-change (when (awake (votes v))))
  (breaks accept-change closed-is-over))
(bug drop-grants "A voter that installs a configuration drops its grants."
  (in install (set (granted v) false))
  (breaks install heart))
(bug forget-drain "A voter that installs a configuration counts itself as drained."
  (in install (set (drained-at v) (voter-clock v)))
  (breaks install drains))

; ---- The floor -------------------------------------------------------------------------------------------------------------

(bug forget-floor "A voter that installs a configuration does not take tokens up to the floor for promised."
  (in install (keep promised) (keep ceiling))
  (breaks install floor-is-promised))
(bug floor-in-memory "A voter that installs a configuration does not raise the ceiling on its disk to the floor."
  (in install (keep ceiling))
  (breaks install ceiling-above))
(bug low-floor "A coordinator proposes a floor below a ceiling that was reported."
  (in propose-change (drop floor))
  (breaks propose-change proposed-change-covers))
(bug early-floor "A voter reports its ceiling before it has installed the base."
  (in report (when (installed (chosen (base g)))))
  (breaks report reports-installed reports-cover))

; ---- Versions ----------------------------------------------------------------------------------------------------------------

(bug old-version-promises "A voter promises in older versions than it has installed."
  (in promise (when (same-version (<= (version (prepared-in p)) (version (installed v))))))
  (breaks promise reports-cover sealed stale-lives-unpromised))
(bug old-version-grants "A voter grants in older versions than it has installed."
  (in accept (when (same-version (<= (version (proposed-in r)) (version (installed v))))))
  (breaks accept drains closed-is-over))
(bug old-version-answers "A voter answers enquiries of older versions than it has installed."
  (in answer-enquiry (when (same-version (<= (version (enquired-in e)) (version (installed v))))))
  (breaks answer-enquiry stale-lives-unanswered))
(bug mix-versions "A candidate that learns a newer configuration keeps its round: answers of two versions count together."
  (in learn (keep round) (keep open))
  (breaks learn open-in-known prepares-in-known enquires-in-known))
(bug volatile-configuration "A voter that restarts has an older configuration again."
  (in restart (for (old Configuration)) (add (old (and (chosen old) (<= (version old) (version (installed v))))))
    (set (installed v) old))
  (breaks restart answers-in-past-versions closed-is-installed reports-installed sealed))
(bug blank-disk-votes "A voter whose disk is empty votes as the voter of its node id."
  (in lose-disk (keep votes))
  (breaks lose-disk promises-kept accepts-kept heart floor-is-promised drains))
(bug install-older "A voter installs an older configuration."
  (in install (drop newer))
  (breaks install answers-in-past-versions closed-is-installed reports-installed sealed))
(bug install-unchosen "A voter installs a configuration that was not chosen."
  (in install (drop chosen))
  (breaks install only-chosen-is-used))

; ---- What is chosen --------------------------------------------------------------------------------------------------------------

(bug swap-two "A coordinator replaces a voter in one step: majorities of the two configurations need not meet."
  (in propose-change (drop one-at-a-time))
  (breaks propose-change proposed-change-covers))
(bug swap-one "A voter is replaced by another in one step: majorities of n voters each, of n + 1 voters that there are."
  (lemma neighbouring-majorities (forall ((n Int)) (=> (>= n 1) (> (+ (+ (div n 2) 1) (+ (div n 2) 1)) (+ n 1)))))
  (breaks lemma neighbouring-majorities))
(bug two-of-a-version "Two configurations of one version are chosen."
  (in choose (when (one-per-version (chosen (base g)))))
  (breaks choose one-per-version versions-to-latest floors-grow sealed stale-lives-unpromised stale-lives-unanswered))
(bug count-the-missing "A candidate counts the voters that may hold a grant of an earlier life, among the voters of its own
  version only."
  (in conclude (when (answered (forall ((n Majority)) (=> (= (electorate n) (known c))
    (and (in (witness n) n) (unheld (witness n) (enquiry c))))))))
  (breaks conclude waited-out-is-over))

; ---- Harmless for safety -----------------------------------------------------------------------------------------------------------

(bug report-before-drained "A voter promises a ballot and reports its ceiling before it has drained, or while it is silent.
  Only accepting has to wait."
  (in report (when (awake (votes v))) (drop drained))
  (harmless))
(bug drained-by-grants "A voter has drained when its live grants have run out, which it knows."
  (in install (set (drained-at v) (ite (live-grant v) (expires v) (voter-clock v))))
  (harmless))

(possible a-successor "A leader leads in the version before the latest."
  (exists ((c Candidate)) (and (leads c) (= (proposed-in (basis c)) (base latest)) (> (version latest) 0))))
(possible two-versions-on "There is a leader in version two, and a token was backed in version nought."
  (exists ((c Candidate) (p Preparation)) (and (leads c) (= (version (proposed-in (basis c))) 2) (backed p)
    (= (version (prepared-in p)) 0))))
