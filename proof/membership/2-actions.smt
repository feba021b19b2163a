; ---- What changes in the actions of the lease: every request carries a configuration ------------------------------------

(extend promise (add (same-version (= (installed v) (prepared-in p)))))
(extend accept (add (same-version (= (installed v) (proposed-in r)))))
(extend answer-enquiry (add (same-version (= (installed v) (enquired-in e)))))
; A restarted voter has its configuration from the disk. It has forgotten when it is drained, but is silent first.
(extend restart (set (drained-at v) clock))
(extend lose-disk (set (drained-at v) clock))

; A candidate begins with any configuration, however old.
(extend start (for (cached Configuration)) (add (cached (chosen cached))) (set (known c) cached))
(extend enquire (add (this-version (= (enquired-in e) (known c)))))
(extend prepare (add (this-version (= (prepared-in p) (known c)))))
(extend propose (add (this-version (and (= (proposed-in r) (known c)) (= (electorate m) (known c))))))
(extend renew (add (this-version (= (proposed-in r) (known c)))))
(extend win (add (this-version (= (electorate m) (known c)))))
(extend win-too-late (add (this-version (= (electorate m) (known c)))))
; A whole majority of the version in use must answer that it holds no grant of this id: in the version before, another
; voter may be missing.
(extend conclude (for (m Majority))
  (when (answered (and (= (electorate m) (known c))
    (forall ((v Voter)) (=> (in v m) (unheld v (enquiry c))))))))

; ---- Configurations ------------------------------------------------------------------------------------------------------

(action learn "A candidate hears of a newer configuration. It closes its round, and keeps its lease, which it renews under
  the new version."
  (code "crates/suffrage-lease/src/candidate.rs" "reconfigure")
  (for (c Candidate) (g Configuration))
  (when
    (alive (alive c))
    (in-time (not (lapsed c)))
    (chosen (chosen g))
    (newer (> (version g) (version (known c)))))
  (set (known c) g)
  (set (round c) idle)
  (set-all (open (s Proposal)) (and (open s) (not (= (author s) c)))))

(action install "A voter installs a newer configuration; versions may be skipped. It keeps its promises and grants, and
  tokens up to the floor count as promised. It has drained when the longest lease it can have granted has run out."
  (code "crates/suffrage-lease/src/voter.rs" "install")
  (for (v Voter) (g Configuration))
  (when
    (chosen (chosen g))
    (newer (> (version g) (version (installed v)))))
  (set (installed v) g)
  (set (ceiling v) (ite (> (floor g) (ceiling v)) (floor g) (ceiling v)))
  (set (promised v) (ite (> (floor g) (promised v)) (floor g) (promised v)))
  (set (drained-at v) (+ (voter-clock v) (longest v))))

(action report "A voter that has drained promises a coordinator's ballot, and tells its ceiling."
  (code "crates/suffrage-lease/src/voter.rs" "on_change" "choose")
  (for (v Voter) (g Configuration))
  (when
    (once (not (reported v g)))
    (installed (= (installed v) (base g)))
    (awake (awake v))
    (drained (drained v)))
  (set (reported v g) true)
  (set (report v g) (ceiling v)))

(action propose-change "A coordinator has the reports of a majority, and proposes a configuration that differs by one voter
  at most and whose floor covers the reports."
  (code "crates/suffrage-lease/src/membership/coordinator.rs" "on_promised")
  (for (g Configuration) (m Majority))
  (when
    (once (not (change-proposed g)))
    (next (= (version g) (+ (version (base g)) 1)))
    (one-at-a-time (one-changed g))
    (majority (and (= (electorate m) (base g)) (forall ((v Voter)) (=> (in v m) (reported v g)))))
    (floor (forall ((v Voter)) (=> (in v m) (<= (report v g) (floor g))))))
  (set (change-proposed g) true)
  (set (reporters g) m))

(action accept-change "A voter that has drained accepts a successor of what it has installed."
  (code "crates/suffrage-lease/src/voter.rs" "on_change" "choose")
  (for (v Voter) (g Configuration))
  (when
    (sent (change-proposed g))
    (installed (= (installed v) (base g)))
    (awake (awake v))
    (drained (drained v)))
  (set (change-accepted v g) true)
  (set (closed v) (ite (> (version (base g)) (closed v)) (version (base g)) (closed v))))

(action choose "A majority has accepted: the configuration is chosen. Only the latest has no successor yet, and a version
  has one configuration (model `choice`)."
  (code "crates/suffrage-lease/src/membership/coordinator.rs" "on_accepted")
  (for (g Configuration) (m Majority))
  (when
    (one-per-version (= (base g) latest))
    (sent (change-proposed g))
    (majority (and (= (electorate m) (base g)) (forall ((v Voter)) (=> (in v m) (change-accepted v g))))))
  (set (chosen g) true)
  (set latest g)
  (set-all (blocker (n Majority)) (ite (= (electorate n) (base (base g))) (common n m) (blocker n)))
  (set-all (sealer (n Majority)) (ite (= (electorate n) (base (base g))) (common n (reporters g)) (sealer n))))
