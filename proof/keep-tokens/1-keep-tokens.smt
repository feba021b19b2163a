; A leader keeps its token through a change of voters and through a voter's restart: a voter takes a renewal even below
; what it has promised.

(model "the same, and a leader keeps its token (rule 8)")
(extends membership)

(constant (renewal Proposal) Bool "It asks once more for the lease that its candidate holds.")
(state (taken Voter Preparation) Bool "Ghost: the voter has accepted a proposal of this token that was no renewal.")
(state (first-accepting Preparation) Majority "Ghost: the majority that made this token a leader's.")
(initially "Nothing has been accepted." (forall ((v Voter) (p Preparation)) (not (taken v p))))

(define (greater-own-grant (v Voter) (r Proposal)) Bool
  (and (live-grant v) (= (holder v) (id (author r))) (> (grant-token v) (token-of r))))

(extend propose (add (no-renewal (not (renewal r)))))
(extend renew (add (renewal (= (renewal r) (= (of r) (of (basis c)))))))
(extend accept
  (when (not-smaller (or (>= (token-of r) (promised v)) (and (renewal r) (not (greater-own-grant v r))))))
  (set (promised v) (ite (> (token-of r) (promised v)) (token-of r) (promised v)))
  (set-all (taken (u Voter) (p Preparation)) (or (taken u p) (and (= u v) (= p (of r)) (not (renewal r))))))
(extend win (set-all (first-accepting (p Preparation))
  (ite (and (= p (of r)) (not (renewal r))) m (first-accepting p))))

; ---- What replaces the conjunct that compared the tokens of all that a voter accepted ------------------------------------------

(without accepted-otherwise)
(invariant taken-kept "A voter remembers the greatest token that it took and that was no renewal."
  (forall ((v Voter) (p Preparation)) (=> (taken v p) (and (backed p) (=> (votes v) (<= (token p) (promised v)))))))
(invariant accepts-take "Who accepts a proposal that is no renewal has taken its token."
  (forall ((v Voter) (r Proposal)) (=> (and (accept v r) (not (renewal r))) (taken v (of r)))))
(invariant renewals-of-leaders "Renewals are of tokens that were won."
  (and (forall ((r Proposal)) (=> (and (open r) (renewal r)) (and (holds (author r)) (= (of (basis (author r))) (of r)))))
    (forall ((r Proposal)) (=> (and (open r) (not (renewal r))) (or (not (holds (author r)))
      (not (= (of (basis (author r))) (of r))))))))
(invariant accepted-believable "No voter has accepted two proposals of different candidates that may be believed in."
  (forall ((v Voter) (r Proposal) (s Proposal))
    (=> (and (accept v r) (accept v s) (believable r) (believable s)) (= (author r) (author s)))))
(invariant taken-otherwise "What else a voter took than a proposal that may be believed in and is no renewal, is smaller."
  (forall ((v Voter) (r Proposal) (p Preparation))
    (=> (and (accept v r) (believable r) (not (renewal r)) (taken v p) (not (= (owner p) (author r))))
      (< (token p) (token-of r)))))
(invariant first-win-taken "A majority of the version in which the last winner's token was prepared took it."
  (=> won (and (= (electorate (first-accepting (of last-win))) (prepared-in (of last-win)))
    (forall ((v Voter)) (=> (in v (first-accepting (of last-win))) (taken v (of last-win)))))))
(invariant backed-is-used "What is backed is prepared in a chosen configuration."
  (forall ((p Preparation)) (=> (backed p) (chosen (prepared-in p)))))

(bug renewal-replaces-greater "A late renewal replaces a grant of the same holder with a greater token."
  (in accept (when (not-smaller (or (>= (token-of r) (promised v)) (renewal r)))))
  (breaks accept heart))
(bug any-below-promised "A voter takes any proposal below what it has promised."
  (in accept (when (not-smaller (not (greater-own-grant v r)))))
  (breaks accept taken-otherwise))
(bug lower-promise "A voter that takes a renewal forgets that it has promised a greater token."
  (in accept (set (promised v) (token-of r)))
  (breaks accept promises-kept accepts-kept taken-kept floor-is-promised))

(because accept accepted-believable heart accepts-kept proposals-backed backed-by-majority preparers-began begun
  lives-compare lives-in-order waited-out-is-over open-is-current asks-while-alive lease-has-basis
  tokens-grow-by-life)
