; What a candidate does. `lapse` runs before every input: hence (not (lapsed c)) in nearly every action.

(action start "A life begins. An id is one process at a time: the earlier life has ended. A candidate whose leases
  clients hold has to wait out the leases of earlier lives."
  (code "crates/suffrage-lease/src/candidate.rs" "new")
  (for (c Candidate))
  (when
    (new (not (started c)))
    (one-process (forall ((a Candidate)) (=> (= (id a) (id c)) (not (alive a))))))
  (set (started c) true)
  (set (alive c) true)
  (set (waited-out c) (not (outlives (id c))))
  (set (greatest c) 0)
  (set-all (earlier (a Candidate) (b Candidate))
    (or (earlier a b) (and (= b c) (started a) (= (id a) (id c))))))

(action end "A life ends: a crash, or the candidate leaves. Its questions end with it, and so does its lease, unless
  clients hold it."
  (code "crates/suffrage-lease/src/engine/hand_over.rs" "leave" "finish_leaving")
  (for (c Candidate))
  (when
    (alive (alive c)))
  (set (alive c) false)
  (set (holds c) (and (holds c) (outlives (id c))))
  (set (round c) idle)
  (set-all (open (r Proposal)) (and (open r) (not (= (author r) c)))))

(action enquire "A candidate that waits asks who leads."
  (code "crates/suffrage-lease/src/candidate.rs" "enquire")
  (for (c Candidate) (e Enquiry))
  (when
    (alive (alive c))
    (waiting (and (not (holds c)) (= (round c) idle)))
    (new (and (not (enquired e)) (= (asker e) c))))
  (set (enquired e) true)
  (set (enquiry c) e)
  (set (round c) enquiring))

(action conclude "So many voters answered that they hold no grant of this id that every majority has one of them: no
  earlier life leads."
  (code "crates/suffrage-lease/src/candidate.rs" "conclude" "on_status")
  (for (c Candidate) (witness (Majority) Voter))
  (when
    (alive (alive c))
    (enquiring (= (round c) enquiring))
    (answered (forall ((m Majority)) (and (in (witness m) m) (unheld (witness m) (enquiry c))))))
  (set (waited-out c) true)
  (set (round c) idle))

(action conclude-nothing "The answers leave open whether an earlier life leads."
  (code "crates/suffrage-lease/src/candidate.rs" "conclude")
  (for (c Candidate))
  (when
    (alive (alive c))
    (enquiring (= (round c) enquiring)))
  (set (round c) idle))

(action prepare "The candidate asks for a promise of a token greater than all it has prepared. A leader may do so while
  it leads. Open proposals are given up."
  (code "crates/suffrage-lease/src/candidate.rs" "prepare" "contend" "on_due" "on_rejected" "on_refused")
  (for (c Candidate) (p Preparation))
  (when
    (alive (alive c))
    (in-time (not (lapsed c)))
    (past-over (or (waited-out c) (holds c) (= (round c) preparing)))
    (not-proposing (or (holds c) (not (= (round c) proposing))))
    (new (and (not (prepared p)) (= (owner p) c)))
    (greater (> (token p) (greatest c))))
  (set (prepared p) true)
  (set (greatest c) (token p))
  (set (preparation c) p)
  (set (round c) preparing)
  (set-all (open (r Proposal)) (and (open r) (not (= (author r) c)))))

(action propose "A majority has promised: the candidate notes its clock, then asks for the lease."
  (code "crates/suffrage-lease/src/candidate.rs" "propose" "on_promised")
  (for (c Candidate) (r Proposal) (m Majority))
  (when
    (alive (alive c))
    (in-time (not (lapsed c)))
    (preparing (= (round c) preparing))
    (majority (forall ((v Voter)) (=> (in v m) (promise v (preparation c)))))
    (new (and (not (proposed r)) (= (of r) (preparation c)))))
  (set (backed (preparation c)) true)
  (set (backing (preparation c)) m)
  (set (proposed r) true)
  (set (noted r) (candidate-clock c))
  (set (fastest-at r) fastest)
  (set (slowest-at r) slowest)
  (set (open r) true)
  (set (round c) proposing))

(action renew "A leader asks for its lease once more, or once more for the one with the greater token that it has
  prepared meanwhile. Some of the questions before stay open, each with its own noted clock."
  (code "crates/suffrage-lease/src/candidate.rs" "propose" "renewals_in_flight" "on_due")
  (for (c Candidate) (r Proposal) (kept (Proposal) Bool))
  (when
    (alive (alive c))
    (leads (leads c))
    (not-preparing (or (= (round c) idle) (= (round c) proposing)))
    (new (and (not (proposed r))
      (= (of r) (ite (= (round c) proposing) (preparation c) (of (basis c)))))))
  (set (proposed r) true)
  (set (noted r) (candidate-clock c))
  (set (fastest-at r) fastest)
  (set (slowest-at r) slowest)
  (set-all (open (s Proposal)) (or (= s r) (and (open s) (or (kept s) (not (= (author s) c))))))
  (set (preparation c) (of r))
  (set (round c) proposing))

(action win "A majority has accepted one open proposal in time: the candidate leads, until its validity after the
  noted clock."
  (code "crates/suffrage-lease/src/candidate.rs" "win" "on_accepted")
  (for (c Candidate) (r Proposal) (m Majority))
  (when
    (in-time (not (lapsed c)))
    (open (and (open r) (= (author r) c)))
    (majority (forall ((v Voter)) (=> (in v m) (accept v r))))
    (still-valid (< (candidate-clock c) (+ (noted r) (validity c)))))
  (set (holds c) true)
  (set (basis c) r)
  (set (valid-until c) (+ (noted r) (validity c)))
  (set (round c) idle)
  (set-all (open (s Proposal)) (and (open s) (not (= (author s) c))))
  (set (accepting r) m)
  (set won true)
  (set last-win r)
  (set went-back (or went-back (and won
    (ite (and (holds c) (= (of (basis c)) (of r)))
      (< (token-of r) (token-of last-win))
      (<= (token-of r) (token-of last-win)))))))

(action win-too-late "A majority has accepted, but the lease is over already: the candidate gives it back (`lose`).
  The code asserts that the candidate holds no lease then. The model does not: the invariant has to show it."
  (code "crates/suffrage-lease/src/candidate.rs" "win" "lose")
  (for (c Candidate) (r Proposal) (m Majority))
  (when
    (in-time (not (lapsed c)))
    (open (and (open r) (= (author r) c)))
    (majority (forall ((v Voter)) (=> (in v m) (accept v r))))
    (over (>= (candidate-clock c) (+ (noted r) (validity c)))))
  (set (released (of r)) true)
  (set (round c) idle)
  (set-all (open (s Proposal)) (and (open s) (not (= (author s) c)))))

(action lose "A candidate without a lease gives up its round, and gives back what voters may have granted."
  (code "crates/suffrage-lease/src/candidate.rs" "lose" "on_due" "on_refused")
  (for (c Candidate))
  (when
    (alive (alive c))
    (no-lease (not (holds c)))
    (contending (or (= (round c) preparing) (= (round c) proposing))))
  (set-all (released (p Preparation))
    (or (released p) (and (= (round c) proposing) (= p (preparation c)))))
  (set (round c) idle)
  (set-all (open (s Proposal)) (and (open s) (not (= (author s) c)))))

(action hand-over "A leader steps down, and then releases its token, and a greater one if it has proposed that."
  (code "crates/suffrage-lease/src/candidate/hand_over.rs" "release" "release_now" "end_notice" "set_healthy")
  (for (c Candidate))
  (when
    (alive (alive c))
    (leads (leads c)))
  (set (holds c) false)
  (set (round c) idle)
  (set-all (open (s Proposal)) (and (open s) (not (= (author s) c))))
  (set-all (released (p Preparation)) (or (released p) (= p (of (basis c)))
    (and (= (round c) proposing) (= p (preparation c))))))

(action lapse "The lease is over by the candidate's clock, and the candidate looks at it."
  (code "crates/suffrage-lease/src/candidate.rs" "lapse" "step_down")
  (for (c Candidate))
  (when
    (over (lapsed c)))
  (set (holds c) false)
  (set (round c) idle)
  (set-all (open (s Proposal)) (and (open s) (not (= (author s) c)))))
