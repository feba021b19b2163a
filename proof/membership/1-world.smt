; The quorum lease while its voters change: what the model `lease` has besides.
;
; Every configuration chooses its one successor. How it does (Paxos among its voters) is no part of this model, which
; takes for granted that a version has one configuration; the model `choice` shows that.

(model "never two leaders, tokens increase; voters change one at a time")
(extends lease)

(sort Configuration "A list of voters, with a version and a floor.")
(constant (version Configuration) Int "Versions count from 0.")
(constant (base Configuration) Configuration "The configuration whose successor it is.")
(constant (floor Configuration) Int "Tokens up to this count as promised where it is installed.")
(constant (one-changed Configuration) Bool "It differs from its base by one voter at most.")
(constant (electorate Majority) Configuration "Of whose voters it is a majority.")
(constant (prepared-in Preparation) Configuration "The configuration that a Prepare carries.")
(constant (proposed-in Proposal) Configuration "The configuration that a Propose carries.")
(constant (enquired-in Enquiry) Configuration "The configuration that an Enquire carries.")

(define (meet (g Configuration) (h Configuration)) Bool
  (or (= g h) (and (= g (base h)) (one-changed h)) (and (= h (base g)) (one-changed g))))

(without majorities-meet)
(axiom neighbours-meet "Any two majorities of one configuration have a voter in common, and so have majorities of two
  configurations of which one is the other's base and differs by one voter."
  (forall ((m Majority) (n Majority)) (=> (meet (electorate m) (electorate n))
    (and (in (common m n) m) (in (common m n) n)))))

(lemma neighbouring-majorities "A majority of n voters and a majority of these and one more have a voter in common: together
  they have more than the n + 1 voters there are."
  (forall ((n Int)) (=> (>= n 1) (> (+ (+ (div n 2) 1) (+ (div (+ n 1) 2) 1)) (+ n 1)))))

(state (chosen Configuration) Bool "It is the configuration of its version.")
(state latest Configuration "The chosen configuration with the greatest version.")
(state (installed Voter) Configuration "On disk: what the voter has installed.")
(state (drained-at Voter) Real "By the voter's clock: every grant from before the installation has run out.")
(state (known Candidate) Configuration "The newest configuration that the candidate knows.")
(state (reported Voter Configuration) Bool "ChangePromised, to the coordinator of this configuration.")
(state (report Voter Configuration) Int "The ceiling that it carries.")
(state (change-proposed Configuration) Bool "ChangeAccept has been sent.")
(state (change-accepted Voter Configuration) Bool "ChangeAccepted.")

; Ghosts.
(state (reporters Configuration) Majority "The majority of the base whose reports the floor covers.")
(state (closed Voter) Int "The greatest version whose successor the voter has accepted.")
(state (blocker Majority) Voter "Of a majority of the configuration before the one before the latest: one that accepted
  the latest.")
(state (sealer Majority) Voter "Of a majority of the configuration before the one before the latest: one that reported
  for the latest.")

(define (drained (v Voter)) Bool (>= (voter-clock v) (drained-at v)))
(define (v-of (v Voter)) Int (version (installed v)))

(initially "Everybody has the first configuration."
  (and (forall ((v Voter)) (and (= (installed v) latest) (<= (drained-at v) (voter-clock v)) (= (closed v) 0)))
    (forall ((g Configuration)) (= (chosen g) (= g latest)))
    (= (version latest) 0) (= (floor latest) 0)))
(initially "No change has begun."
  (forall ((g Configuration)) (and (not (change-proposed g))
    (forall ((v Voter)) (and (not (reported v g)) (not (change-accepted v g)))))))
