; Time passes. Clocks are real numbers that advance each at its own, changing rate within the bound.

(action time "Every clock advances by no less than the slowest clock and no more than the fastest."
  (code "crates/suffrage-lease/src/timings.rs" "validity")
  (for (slow Real) (fast Real) (voter-after (Voter) Real) (candidate-after (Candidate) Real))
  (when
    (forward (and (<= 0.0 slow) (<= slow fast)))
    (voters-slow (forall ((v Voter)) (>= (voter-after v) (+ (voter-clock v) slow))))
    (voters-fast (forall ((v Voter)) (<= (voter-after v) (+ (voter-clock v) fast))))
    (candidates-slow (forall ((c Candidate)) (>= (candidate-after c) (+ (candidate-clock c) slow))))
    (candidates-fast (forall ((c Candidate)) (<= (candidate-after c) (+ (candidate-clock c) fast))))
    ; By lemma `validity`, for the true time from the noted moment until now.
    (drift (forall ((r Proposal)) (=> (and (proposed r)
        (< (- (+ slowest slow) (slowest-at r)) (validity (author r))))
      (< (- (+ fastest fast) (fastest-at r)) (ttl (author r)))))))
  (set slowest (+ slowest slow))
  (set fastest (+ fastest fast))
  (set-all (voter-clock (v Voter)) (voter-after v))
  (set-all (candidate-clock (c Candidate)) (candidate-after c)))

(lemma validity "`Drift::validity`: while the slowest clock has counted less than ttl (1 - d) / (1 + d), the fastest has
  counted less than ttl."
  (forall ((d Real) (time Real) (ttl Real) (validity Real))
    (=> (and (<= 0.0 d) (< d 0.5) (<= 0.0 time) (< 0.0 ttl)
        (<= (* validity (+ 1.0 d)) (* ttl (- 1.0 d)))
        (< (* (- 1.0 d) time) validity))
      (< (* (+ 1.0 d) time) ttl))))

(lemma majorities "Two sets of more than half of n voters (`Candidate::majority`) have a voter in common."
  (forall ((n Int)) (=> (>= n 1) (> (+ (+ (div n 2) 1) (+ (div n 2) 1)) n))))
