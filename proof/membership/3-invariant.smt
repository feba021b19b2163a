; ---- One chain of configurations -------------------------------------------------------------------------------------------

(invariant latest-chosen "The latest is chosen."
  (and (chosen latest) (>= (version latest) 0)))
(invariant versions-to-latest "No version is greater than the latest."
  (forall ((g Configuration)) (=> (chosen g) (<= 0 (version g) (version latest)))))
(invariant chain "Every chosen configuration but the first has a chosen base, one version before and one voter apart."
  (forall ((g Configuration)) (! (=> (and (chosen g) (> (version g) 0))
      (and (chosen (base g)) (= (version g) (+ (version (base g)) 1)) (one-changed g)))
    :pattern ((base g)))))
(invariant one-per-version "A version has one configuration."
  (forall ((g Configuration) (h Configuration))
    (=> (and (chosen g) (chosen h) (= (version g) (version h))) (= g h))))
(invariant only-chosen-is-used "Voters, candidates and requests have chosen configurations."
  (and (forall ((v Voter)) (chosen (installed v)))
    (forall ((c Candidate)) (=> (started c) (chosen (known c))))
    (forall ((p Preparation)) (=> (prepared p) (chosen (prepared-in p))))
    (forall ((r Proposal)) (=> (proposed r) (chosen (proposed-in r))))
    (forall ((e Enquiry)) (=> (enquired e) (chosen (enquired-in e))))))
(invariant floors-grow "Later configurations have no smaller floors."
  (forall ((g Configuration) (h Configuration))
    (=> (and (chosen g) (chosen h) (<= (version g) (version h))) (<= (floor g) (floor h)))))

; ---- No round mixes configurations -----------------------------------------------------------------------------------------

(invariant open-in-known "Open proposals carry the configuration that their candidate knows."
  (forall ((r Proposal)) (=> (open r) (= (proposed-in r) (known (author r))))))
(invariant prepares-in-known "What a candidate prepares carries the configuration that it knows. What it proposes does
  as well, unless it leads with it."
  (forall ((c Candidate)) (and
    (=> (= (round c) preparing) (= (prepared-in (preparation c)) (known c)))
    (=> (= (round c) proposing) (or (= (prepared-in (preparation c)) (known c))
      (and (holds c) (= (of (basis c)) (preparation c))))))))
(invariant enquires-in-known "A question that a candidate waits for answers to carries the configuration that it knows."
  (forall ((c Candidate)) (=> (= (round c) enquiring) (= (enquired-in (enquiry c)) (known c)))))
(invariant backed-in-its-version "A majority of the configuration that a preparation carries backs it."
  (forall ((p Preparation)) (=> (backed p) (= (electorate (backing p)) (prepared-in p)))))
(invariant lease-in-its-version "A majority of the configuration that a proposal carries makes it a lease."
  (forall ((c Candidate)) (=> (holds c) (= (electorate (accepting (basis c))) (proposed-in (basis c))))))
(invariant last-win-in-its-version "So it is for the last win."
  (=> won (= (electorate (accepting last-win)) (proposed-in last-win))))
(invariant proposals-not-older "A proposal carries no older configuration than its preparation."
  (and (forall ((r Proposal)) (=> (proposed r) (<= (version (prepared-in (of r))) (version (proposed-in r)))))
    (forall ((c Candidate)) (=> (or (= (round c) preparing) (= (round c) proposing))
      (<= (version (prepared-in (preparation c))) (version (known c)))))
    (forall ((c Candidate)) (=> (holds c) (<= (version (prepared-in (of (basis c)))) (version (known c)))))))

; ---- Voters ----------------------------------------------------------------------------------------------------------------

(invariant answers-in-past-versions "A voter has answered requests of what it has installed, and of what it had before."
  (and (forall ((v Voter) (p Preparation)) (=> (promise v p) (<= (version (prepared-in p)) (v-of v))))
    (forall ((v Voter) (r Proposal)) (=> (accept v r) (<= (version (proposed-in r)) (v-of v))))
    (forall ((v Voter) (e Enquiry)) (=> (unheld v e) (<= (version (enquired-in e)) (v-of v))))))
(invariant floor-is-promised "Tokens up to the floor count as promised."
  (forall ((v Voter)) (=> (votes v) (<= (floor (installed v)) (promised v)))))
(invariant above-the-floor "Only tokens above the floor are promised."
  (forall ((v Voter) (p Preparation)) (=> (promise v p) (< (floor (prepared-in p)) (token p)))))
(invariant drains "While a proposal of an older version may be believed in, a voter that accepted it has not drained, or is
  silent."
  (forall ((v Voter) (r Proposal))
    (=> (and (accept v r) (votes v) (believable r) (< (version (proposed-in r)) (v-of v)))
      (or (>= (- (drained-at v) (voter-clock v)) (left r)) (>= (- (silent-until v) (voter-clock v)) (left r))))))

; ---- Two versions back is closed ---------------------------------------------------------------------------------------------

(invariant closed-is-installed "Who accepted a successor had installed what it succeeds."
  (forall ((v Voter)) (<= (closed v) (v-of v))))
(invariant accepted-is-closed "Who accepted a successor has closed its base's version."
  (forall ((v Voter) (g Configuration)) (=> (change-accepted v g) (and (<= (version (base g)) (closed v))
    (change-proposed g)))))
(invariant closed-is-over "What a voter accepted in versions before one that it has closed is not believed in."
  (forall ((v Voter) (r Proposal)) (=> (and (accept v r) (< (version (proposed-in r)) (closed v))) (not (believable r)))))
(invariant blocked "Every majority of a configuration two versions back has a voter that has closed the version between."
  (forall ((m Majority)) (=> (and (chosen (electorate m)) (>= (version latest) (+ (version (electorate m)) 2)))
    (and (in (blocker m) m) (> (closed (blocker m)) (version (electorate m)))))))

; ---- The floor covers two versions back ----------------------------------------------------------------------------------------

(invariant reports-installed "Who reported had installed the base."
  (forall ((v Voter) (g Configuration)) (=> (reported v g) (and (chosen (base g)) (<= (version (base g)) (v-of v))))))
(invariant reports-cover "A report covers all that was promised in earlier versions, and the floor of the base."
  (and (forall ((v Voter) (g Configuration)) (=> (reported v g) (<= (floor (base g)) (report v g))))
    (forall ((v Voter) (g Configuration) (p Preparation))
      (=> (and (reported v g) (promise v p) (< (version (prepared-in p)) (version (base g))))
        (<= (token p) (report v g))))))
(invariant proposed-change-covers "The floor of a proposed configuration covers the reports of a majority of its base."
  (forall ((g Configuration)) (=> (change-proposed g) (and (= (electorate (reporters g)) (base g)) (one-changed g)
    (= (version g) (+ (version (base g)) 1))
    (forall ((v Voter)) (=> (in v (reporters g)) (and (reported v g) (<= (report v g) (floor g)))))))))
(invariant sealed "Every majority of a configuration two versions back has a voter that has left it, and whose promises in
  it the floors since then cover."
  (forall ((m Majority)) (=> (and (chosen (electorate m)) (>= (version latest) (+ (version (electorate m)) 2)))
    (and (in (sealer m) m) (> (v-of (sealer m)) (version (electorate m)))
      (forall ((p Preparation) (h Configuration))
        (=> (and (chosen h) (>= (version h) (+ (version (electorate m)) 2)) (promise (sealer m) p)
            (<= (version (prepared-in p)) (version (electorate m))))
          (<= (token p) (floor h))))))))

; ---- Lives that begin with an old configuration --------------------------------------------------------------------------------

(invariant stale-lives-unpromised "A later life with a configuration two versions older than what an earlier life's tokens were
  promised in has no promise of some voter of every majority."
  (forall ((p Preparation) (q Preparation) (m Majority))
    (=> (and (backed p) (earlier (owner p) (owner q)) (prepared q) (= (electorate m) (prepared-in q))
        (>= (version (prepared-in p)) (+ (version (prepared-in q)) 2)))
      (not (promise (blocker m) q)))))
(invariant stale-lives-unanswered "Nor has it an answer of some voter of every majority that an earlier life's lease is over."
  (forall ((a Candidate) (e Enquiry) (m Majority))
    (=> (and (holds a) (earlier a (asker e)) (enquired e) (= (electorate m) (enquired-in e))
        (>= (version (proposed-in (basis a))) (+ (version (enquired-in e)) 2)))
      (not (unheld (blocker m) e)))))

; ---- The order of wins -----------------------------------------------------------------------------------------------------------

(invariant believed-won-last "Who may be believed to lead won last."
  (forall ((c Candidate)) (=> (and (holds c) (believable (basis c))) (and won (= (author last-win) c)))))

; ---- Consequences, which those of the lease need -----------------------------------------------------------------------------------

(consequence neighbours "Chosen configurations of the same or of neighbouring versions have majorities that meet."
  (forall ((g Configuration) (h Configuration)) (=> (and (chosen g) (chosen h)
      (<= (- (version g) (version h)) 1) (<= (- (version h) (version g)) 1))
    (meet g h))))
(consequence floor-covers "The floor of a configuration covers every token that a majority promised two versions before."
  (forall ((p Preparation) (h Configuration)) (=> (and (backed p) (chosen h)
      (>= (version h) (+ (version (prepared-in p)) 2)))
    (<= (token p) (floor h)))))
(consequence leases-two-back-are-over "No lease of two versions before the latest is believed in."
  (forall ((c Candidate)) (=> (and (holds c) (>= (version latest) (+ (version (proposed-in (basis c))) 2)))
    (not (believable (basis c))))))
