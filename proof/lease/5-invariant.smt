; The invariant, conjunct by conjunct. Every action keeps each of them.

; ---- Lives -----------------------------------------------------------------------------------------------------------

(invariant one-process "Of one id one life goes on at a time."
  (forall ((a Candidate) (b Candidate)) (=> (and (alive a) (alive b) (= (id a) (id b))) (= a b))))
(invariant begun "Who lives, holds or asks has begun."
  (forall ((c Candidate)) (=> (or (alive c) (holds c) (not (= (round c) idle))) (started c))))
(invariant asks-while-alive "Only who lives waits for answers."
  (forall ((c Candidate)) (=> (not (= (round c) idle)) (alive c))))
(invariant lives-in-order "Earlier lives of an id are over."
  (forall ((a Candidate) (b Candidate))
    (=> (earlier a b) (and (started a) (started b) (= (id a) (id b)) (not (alive a))))))
(invariant lives-compare "Of two lives of an id, one is the earlier."
  (forall ((a Candidate) (b Candidate))
    (=> (and (started a) (started b) (= (id a) (id b)) (not (= a b))) (or (earlier a b) (earlier b a)))))
(invariant lease-ends-with-life "A lease outlives its candidate only where clients hold it."
  (forall ((c Candidate)) (=> (and (holds c) (not (alive c))) (outlives (id c)))))

; ---- A candidate does one thing at a time, with ever greater tokens ----------------------------------------------------

(invariant open-is-current "Open proposals are the current ones of a candidate that proposes."
  (forall ((r Proposal)) (=> (open r) (and (proposed r) (= (round (author r)) proposing)
    (= (of r) (preparation (author r)))))))
(invariant round-is-own "A candidate prepares and proposes what it has prepared itself."
  (forall ((c Candidate)) (=> (or (= (round c) preparing) (= (round c) proposing))
    (and (prepared (preparation c)) (= (owner (preparation c)) c)))))
(invariant preparing-is-unbacked "While a candidate prepares, no majority is known to have promised; the token is its
  greatest."
  (forall ((c Candidate)) (=> (= (round c) preparing)
    (and (not (backed (preparation c))) (= (token (preparation c)) (greatest c))))))
(invariant proposing-is-backed "A candidate proposes what a majority has promised."
  (forall ((c Candidate)) (=> (= (round c) proposing) (backed (preparation c)))))
(invariant enquiry-is-own "A candidate that enquires waits for answers to its own question."
  (forall ((c Candidate)) (=> (= (round c) enquiring) (and (enquired (enquiry c)) (= (asker (enquiry c)) c)))))
(invariant enquirers-began "Who has enquired has begun."
  (forall ((e Enquiry)) (=> (enquired e) (started (asker e)))))
(invariant tokens-heard "A candidate knows the greatest token that it has prepared."
  (forall ((p Preparation)) (=> (prepared p) (<= (token p) (greatest (owner p))))))
(invariant tokens-once "A candidate prepares each token once."
  (forall ((p Preparation) (q Preparation))
    (=> (and (prepared p) (prepared q) (= (owner p) (owner q)) (= (token p) (token q))) (= p q))))
(invariant preparers-began "Who has prepared has begun, and has waited out its earlier lives."
  (forall ((p Preparation)) (=> (prepared p) (and (started (owner p)) (waited-out (owner p))))))

; ---- Only what majorities promised is proposed, and only what majorities accepted is held -------------------------------

(invariant backed-by-majority "A majority promised what is backed."
  (forall ((p Preparation)) (=> (backed p) (and (prepared p)
    (forall ((v Voter)) (=> (in v (backing p)) (promise v p)))))))
(invariant proposals-backed "Only what is backed is proposed."
  (forall ((r Proposal)) (=> (proposed r) (backed (of r)))))
(invariant lease-has-basis "A lease rests on a proposal of its holder, and counts from its noted clock."
  (forall ((c Candidate)) (=> (holds c) (and (proposed (basis c)) (= (author (basis c)) c)
    (= (valid-until c) (+ (noted (basis c)) (validity c)))))))
(invariant lease-by-majority "A majority accepted what a lease rests on."
  (forall ((c Candidate) (v Voter)) (=> (and (holds c) (in v (accepting (basis c)))) (accept v (basis c)))))
(invariant open-is-newer "What a leader still waits for was noted no earlier than what its lease rests on: so an open
  proposal is never won too late while the lease is held, and `lose` never runs then."
  (forall ((r Proposal)) (=> (and (open r) (holds (author r))) (>= (noted r) (noted (basis (author r)))))))
(invariant noted-before-now "What was noted is not in the future."
  (forall ((r Proposal)) (=> (proposed r) (and (<= (noted r) (candidate-clock (author r)))
    (<= (fastest-at r) fastest) (<= (slowest-at r) slowest)))))

; ---- Releases --------------------------------------------------------------------------------------------------------

(invariant released-backed "Only tokens that a majority promised are released."
  (forall ((p Preparation)) (=> (released p) (backed p))))
(invariant released-is-past "What a candidate prepares or proposes is greater than all that it released."
  (forall ((p Preparation)) (=> (and (released p)
      (or (= (round (owner p)) preparing) (= (round (owner p)) proposing)))
    (< (token p) (token (preparation (owner p)))))))
(invariant released-not-held "What a candidate holds is greater than all that it released."
  (forall ((p Preparation)) (=> (and (released p) (holds (owner p)))
    (< (token p) (token-of (basis (owner p)))))))

; ---- Voters ----------------------------------------------------------------------------------------------------------

(invariant promises-kept "A voter remembers the greatest token that it promised or accepted."
  (forall ((v Voter) (p Preparation)) (=> (promise v p) (and (prepared p)
    (=> (votes v) (<= (token p) (promised v)))))))
(invariant accepts-kept "A voter remembers the greatest token that it promised or accepted. Its disk knows of a lease that is
  no shorter than what is left of any that may be believed in."
  (forall ((v Voter) (r Proposal)) (=> (accept v r) (and (proposed r)
    (=> (votes v) (and (<= (token-of r) (promised v)) (=> (believable r) (<= (left r) (longest v)))))))))
(invariant ceiling-above "What counts as promised is not above what the disk knows."
  (forall ((v Voter)) (=> (votes v) (<= 0 (promised v) (ceiling v)))))
(invariant promised-once "A voter promises a token once."
  (forall ((v Voter) (p Preparation) (q Preparation))
    (=> (and (promise v p) (promise v q) (= (token p) (token q))) (= p q))))
(invariant later-lives-greater "A voter of the majority that promised to an earlier life promises to later lives only
  greater tokens."
  (forall ((v Voter) (p Preparation) (q Preparation))
    (=> (and (earlier (owner p) (owner q)) (backed p) (in v (backing p)) (promise v q))
      (< (token p) (token q)))))

; ---- The heart -------------------------------------------------------------------------------------------------------

(invariant heart "While a proposal may still be believed in, every voter that accepted it has a grant for its id with no
  smaller token, or is silent; and either lasts, by the voter's clock, at least as long as what is left of the ttl by
  the fastest clock."
  (forall ((v Voter) (r Proposal)) (=> (and (accept v r) (votes v) (believable r))
    (or (and (granted v) (= (holder v) (id (author r))) (>= (grant-token v) (token-of r))
        (>= (- (expires v) (voter-clock v)) (left r)))
      (>= (- (silent-until v) (voter-clock v)) (left r))))))
(invariant accepted-otherwise "What else a voter accepted than a proposal that may be believed in, has a smaller token."
  (forall ((v Voter) (r Proposal) (s Proposal))
    (=> (and (accept v r) (believable r) (accept v s) (not (= (author r) (author s))))
      (< (token-of s) (token-of r)))))

; ---- Earlier lives ---------------------------------------------------------------------------------------------------

(invariant unheld-is-over "A voter of the majority that an earlier life leads by, which answered that it holds no grant
  of that id: that lease is over."
  (forall ((v Voter) (e Enquiry) (a Candidate))
    (=> (and (unheld v e) (earlier a (asker e)) (holds a) (in v (accepting (basis a))))
      (<= (left (basis a)) 0.0))))
(invariant waited-out-is-over "Who has waited out its earlier lives has none that is believed in."
  (forall ((a Candidate) (b Candidate)) (=> (and (waited-out b) (earlier a b) (holds a))
    (<= (left (basis a)) 0.0))))
(invariant answers-to-questions "Only questions are answered."
  (forall ((v Voter) (e Enquiry)) (=> (unheld v e) (enquired e))))

; ---- Clocks ----------------------------------------------------------------------------------------------------------

(invariant clock-not-too-slow "By its own clock a candidate has waited at least as long as the slowest clock says."
  (forall ((r Proposal)) (=> (proposed r)
    (>= (- (candidate-clock (author r)) (noted r)) (- slowest (slowest-at r))))))
(invariant drift-within-bound "While the slowest clock has not counted the validity, the fastest has not counted the ttl."
  (forall ((r Proposal)) (=> (and (proposed r) (< (- slowest (slowest-at r)) (validity (author r)))) (> (left r) 0.0))))

; ---- The order of wins -----------------------------------------------------------------------------------------------

(invariant last-win-accepted "A majority accepted what was won last."
  (=> won (and (proposed last-win) (forall ((v Voter)) (=> (in v (accepting last-win)) (accept v last-win))))))
(invariant last-winner-holds-last "If the last winner holds a lease, it is that one."
  (=> (and won (holds (author last-win))) (= (basis (author last-win)) last-win)))
(invariant proposes-after-win "The last winner proposes a greater token than that of its win, or renews it."
  (=> (and won (= (round (author last-win)) proposing))
    (or (> (token (preparation (author last-win))) (token-of last-win))
      (and (holds (author last-win)) (= (preparation (author last-win)) (of last-win))))))
(invariant never-back "No leadership began with a token that was not greater than that of the one before."
  (not went-back))
