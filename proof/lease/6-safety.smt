; What follows from the invariant, in every state: first what the argument uses, then what is promised to users.

(consequence backed-once "Of each token one preparation at most is backed."
  (forall ((p Preparation) (q Preparation)) (=> (and (backed p) (backed q) (= (token p) (token q))) (= p q))))
(consequence tokens-grow-by-life "A later life proposes greater tokens than all that earlier lives proposed."
  (forall ((p Preparation) (q Preparation)) (=> (and (backed p) (backed q) (earlier (owner p) (owner q)))
    (< (token p) (token q)))))
(consequence leaders-are-believable "Who leads by its own clock rests on a proposal with some ttl left by the fastest."
  (forall ((c Candidate)) (=> (leads c) (believable (basis c)))))
(consequence believed-not-released "What may be believed in has a greater token than all that its id released."
  (forall ((r Proposal) (p Preparation)) (=> (and (believable r) (released p) (= (id (owner p)) (id (author r))))
    (< (token p) (token-of r)))))

(safety never-two "Never two leaders at one moment."
  (forall ((a Candidate) (b Candidate)) (=> (and (leads a) (leads b)) (= a b))))
(safety tokens-increase "Each leadership has a greater token than all before."
  (not went-back))
(safety granted-for-longer "While somebody leads, each voter of the majority it leads by has a live grant for it, or is
  silent, or has lost its disk and votes no more."
  (forall ((c Candidate) (v Voter)) (=> (and (leads c) (in v (accepting (basis c))))
    (or (and (live-grant v) (= (holder v) (id c))) (silent v) (not (votes v))))))
