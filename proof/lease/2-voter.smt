; What a voter does.

(action promise "The voter promises a token, greater than all before, unless another holds a live grant."
  (code "crates/suffrage-lease/src/voter.rs" "on_prepare" "held" "raise_ceiling")
  (for (v Voter) (p Preparation) (saved Int))
  (when
    (sent (prepared p))
    (awake (awake v))
    (not-held (not (and (live-grant v) (not (= (holder v) (id (owner p)))))))
    (greater (> (token p) (promised v)))
    (saves (and (>= saved (ceiling v)) (>= saved (token p)))))
  (set (ceiling v) saved)
  (set (promised v) (token p))
  (set (granted v) (live-grant v))
  (set (given-back v) false)
  (set (promise v p) true))

(action accept "The voter grants a lease for the ttl by its own clock, unless another holds a live grant or a greater
  token is promised. A live grant of the same holder never gets shorter."
  (code "crates/suffrage-lease/src/voter.rs" "on_propose" "held" "raise_ceiling")
  (for (v Voter) (r Proposal) (saved Int))
  (when
    (sent (proposed r))
    (awake (awake v))
    (not-held (not (and (live-grant v) (not (= (holder v) (id (author r)))))))
    (not-smaller (>= (token-of r) (promised v)))
    (not-given-back (not (and (given-back v) (= (token-of r) (promised v)))))
    (saves (and (>= saved (ceiling v)) (>= saved (token-of r)))))
  (set (ceiling v) saved)
  (set (longest v) (ite (> (ttl (author r)) (longest v)) (ttl (author r)) (longest v)))
  (set (promised v) (token-of r))
  (set (granted v) true)
  (set (holder v) (id (author r)))
  (set (grant-token v) (token-of r))
  (set (expires v) (let ((end (+ (voter-clock v) (ttl (author r)))))
    (ite (and (live-grant v) (> (expires v) end)) (expires v) end)))
  (set (given-back v) false)
  (set (accept v r) true))

(action take-back "A release arrives. The grant ends if it is that holder's with that token; the token is marked as
  given back if it is the promised one and nobody holds another."
  (code "crates/suffrage-lease/src/voter.rs" "on_release" "wake_next")
  (for (v Voter) (p Preparation))
  (when
    (sent (released p))
    (awake (awake v)))
  (set (granted v) (and (granted v)
    (not (and (live-grant v) (= (holder v) (id (owner p))) (= (grant-token v) (token p))))))
  (set (given-back v) (or (given-back v)
    (and (= (promised v) (token p))
      (or (not (live-grant v)) (and (= (holder v) (id (owner p))) (= (grant-token v) (token p))))))))

(action expire "A grant that has expired is removed."
  (code "crates/suffrage-lease/src/voter.rs" "on_due" "wake_next")
  (for (v Voter))
  (when
    (over (and (granted v) (>= (voter-clock v) (expires v)))))
  (set (granted v) false))

(action forget "The voter forgets the election, or forgets another one while it knows nothing of this: the greatest
  token of all that is forgotten counts as promised."
  (code "crates/suffrage-lease/src/voter.rs" "forget" "promised")
  (for (v Voter) (raised Int))
  (when
    (free (not (granted v)))
    (greater (>= raised (promised v)))
    (other-names (<= raised (ceiling v))))
  (set (promised v) raised)
  (set (given-back v) false))

(action other-names "For other names the voter promises greater tokens or grants longer leases."
  (code "crates/suffrage-lease/src/voter.rs" "raise_ceiling" "on_propose")
  (for (v Voter) (saved Int) (long Real))
  (when
    (greater (and (>= saved (ceiling v)) (>= long (longest v)))))
  (set (ceiling v) saved)
  (set (longest v) long))

(action shrink-longest "The longest lease on disk falls to what live grants have left, by the voter's clock: all others
  have run out. A voter that is silent does not know its grants."
  (code "crates/suffrage-lease/src/voter.rs" "lower_longest")
  (for (v Voter) (shorter Real))
  (when
    (awake (awake v))
    (covers (and (>= shorter 0.0) (=> (live-grant v) (>= shorter (- (expires v) (voter-clock v)))))))
  (set (longest v) shorter))

(action answer-enquiry "The voter tells who holds the election. Only the answer that it is not the candidate's own id
  matters."
  (code "crates/suffrage-lease/src/voter.rs" "on_ask" "live_grant")
  (for (v Voter) (e Enquiry))
  (when
    (sent (enquired e))
    (awake (awake v))
    (not-its-own (not (and (live-grant v) (= (holder v) (id (asker e)))))))
  (set (unheld v e) true))

(action restart "The voter restarts, with another clock perhaps. It has forgotten everything but what is on its disk:
  it is silent for the longest lease it can have granted, and every token up to the ceiling counts as promised."
  (code "crates/suffrage-lease/src/voter.rs" "start" "silent_until")
  (for (v Voter) (clock Real))
  (when)
  (set (voter-clock v) clock)
  (set (silent-until v) (+ clock (longest v)))
  (set (promised v) (ceiling v))
  (set (granted v) false)
  (set (given-back v) false))

(action lose-disk "The voter restarts and finds its disk empty: it votes no more."
  (code "crates/suffrage-lease/src/voter.rs" "start" "may_vote")
  (for (v Voter) (clock Real))
  (when)
  (set (votes v) false)
  (set (voter-clock v) clock)
  (set (silent-until v) clock)
  (set (ceiling v) 0)
  (set (longest v) 0.0)
  (set (promised v) 0)
  (set (granted v) false)
  (set (given-back v) false))
