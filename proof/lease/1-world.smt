; The world of one election: who takes part, what each of them remembers, what has been sent.
;
; The proof is about one name. Other names share with it only what a voter keeps for all names together (ceiling,
; longest, silence, floor); the actions `other-names` and `forget` do to these whatever other names can.

(sort Voter     "A voter of the one list of voters there ever is.")
(sort Id        "A node id. Voters know candidates by their ids.")
(sort Candidate "One life of a candidate: from `Candidate::new` until the process or the candidate ends. The next life
  under the same id is another candidate.")
(sort Preparation "A Prepare request. No two requests are the same (64 random bits).")
(sort Proposal    "A Propose request; a renewal is one too.")
(sort Enquiry     "An Enquire request.")
(sort Majority    "A majority of the voters.")
(enum Round idle enquiring preparing proposing)

; ---- What never changes ----------------------------------------------------------------------------------------

(constant (in Voter Majority) Bool "The voter is one of the majority.")
(constant (common Majority Majority) Voter "A voter that is in both.")
(axiom majorities-meet "Any two majorities have a voter in common. Nothing else is said about majorities."
  (forall ((m Majority) (n Majority)) (and (in (common m n) m) (in (common m n) n))))

(constant (id Candidate) Id "Under which id the candidate lives.")
(constant (outlives Id) Bool "Clients hold this id's leases, and may outlive the process that leads for them.")
(constant (ttl Candidate) Real "For how long the candidate asks for leases.")
(constant (validity Candidate) Real "`Drift::validity` of its ttl.")
(constant (owner Preparation) Candidate "Who prepares.")
(constant (token Preparation) Int "The token that is to be promised. A candidate prepares no token twice.")
(constant (of Proposal) Preparation "The preparation whose token is proposed.")
(constant (asker Enquiry) Candidate "Who enquires.")
(axiom ttl-positive "A lease of nothing is neither asked for nor granted."
  (forall ((c Candidate)) (and (> (ttl c) 0.0) (> (validity c) 0.0))))
(axiom token-positive "Tokens begin at one." (forall ((p Preparation)) (> (token p) 0)))

; ---- What voters have --------------------------------------------------------------------------------------------

(state (voter-clock Voter) Real "The voter's own clock.")
(state (votes Voter) Bool "On disk: false once the disk has been lost.")
(state (ceiling Voter) Int "On disk: no greater token has been promised, of any election.")
(state (longest Voter) Real "On disk: no longer lease has been granted, of any election.")
(state (silent-until Voter) Real "Before this the voter says nothing.")
(state (promised Voter) Int "The greatest token that counts as promised: the election's own, or else the floor.")
(state (granted Voter) Bool "There is a grant, which may have expired.")
(state (holder Voter) Id "Whose grant it is.")
(state (grant-token Voter) Int "With which token.")
(state (expires Voter) Real "Until when, by the voter's clock.")
(state (given-back Voter) Bool "The promised token has been released (`Voter::released`).")

(define (silent (v Voter)) Bool (< (voter-clock v) (silent-until v)))
(define (awake (v Voter)) Bool (and (votes v) (not (silent v))))
(define (live-grant (v Voter)) Bool (and (granted v) (< (voter-clock v) (expires v))))

; ---- What candidates have ----------------------------------------------------------------------------------------

(state (candidate-clock Candidate) Real "The clock of the candidate. It goes on after the candidate's end: whoever
  believes in the lease then counts by it.")
(state (started Candidate) Bool "The life has begun.")
(state (alive Candidate) Bool "The life goes on.")
(state (waited-out Candidate) Bool "`PreviousLease::Over`: no lease of an earlier life is believed in, or it does not matter.")
(state (greatest Candidate) Int "The greatest token it has prepared.")
(state (round Candidate) Round "What it waits for answers to.")
(state (preparation Candidate) Preparation "Preparing: what it prepares. Proposing: what its proposals rest on.")
(state (enquiry Candidate) Enquiry "Enquiring: its question.")
(state (open Proposal) Bool "Its owner waits for answers to it.")
(state (noted Proposal) Real "The clock of its owner, read before it was sent.")
(state (holds Candidate) Bool "`Candidate::lease` is there.")
(state (basis Candidate) Proposal "The proposal that was won last: the lease counts from it.")
(state (valid-until Candidate) Real "The end of the lease by the candidate's clock.")

(define (lapsed (c Candidate)) Bool (and (holds c) (>= (candidate-clock c) (valid-until c))))
(define (leads (c Candidate)) Bool (and (holds c) (< (candidate-clock c) (valid-until c))))

; ---- What has been sent: sets that only grow, so that loss, duplication and order need no actions ------------------

(state (prepared Preparation) Bool "Prepare.")
(state (proposed Proposal) Bool "Propose.")
(state (enquired Enquiry) Bool "Enquire.")
(state (released Preparation) Bool "Release of the token of this preparation.")
(state (promise Voter Preparation) Bool "Promised.")
(state (accept Voter Proposal) Bool "Accepted.")
(state (unheld Voter Enquiry) Bool "Status with no grant to the id that asks.")

; ---- Ghosts: what nobody knows, for the argument only --------------------------------------------------------------

(state fastest Real "A clock that is always as fast as the bound allows.")
(state slowest Real "A clock that is always as slow as the bound allows.")
(state (fastest-at Proposal) Real "The fastest clock when the proposal was noted.")
(state (slowest-at Proposal) Real "The slowest clock when the proposal was noted.")
(state (earlier Candidate Candidate) Bool "Two lives under one id, the first before the second.")
(state (backed Preparation) Bool "A majority promised it, and its owner knew.")
(state (backing Preparation) Majority "That majority.")
(state (accepting Proposal) Majority "The majority that accepted a proposal that was won.")
(state won Bool "Somebody has won.")
(state last-win Proposal "The proposal that was won last, by anybody.")
(state went-back Bool "A leadership began whose token was not greater than that of the one before.")

(define (author (r Proposal)) Candidate (owner (of r)))
(define (token-of (r Proposal)) Int (token (of r)))
(define (left (r Proposal)) Real (- (ttl (author r)) (- fastest (fastest-at r))))
(define (usable (r Proposal)) Bool (or (open r) (and (holds (author r)) (= (basis (author r)) r))))
(define (believable (r Proposal)) Bool (and (usable r) (> (left r) 0.0)))

; ---- The beginning -------------------------------------------------------------------------------------------------

(initially "Voters are new: they have promised and granted nothing."
  (forall ((v Voter)) (and (votes v) (= (ceiling v) 0) (= (longest v) 0.0) (<= (silent-until v) (voter-clock v))
    (= (promised v) 0) (not (granted v)) (not (given-back v)))))
(initially "No candidate has begun."
  (forall ((c Candidate)) (and (not (started c)) (not (alive c)) (not (holds c)) (= (round c) idle))))
(initially "Nothing has been sent."
  (and (forall ((p Preparation)) (and (not (prepared p)) (not (released p)) (not (backed p))))
    (forall ((r Proposal)) (and (not (proposed r)) (not (open r))))
    (forall ((e Enquiry)) (not (enquired e)))
    (forall ((v Voter) (p Preparation)) (not (promise v p)))
    (forall ((v Voter) (r Proposal)) (not (accept v r)))
    (forall ((v Voter) (e Enquiry)) (not (unheld v e)))))
(initially "Nothing has happened."
  (and (not won) (not went-back) (forall ((a Candidate) (b Candidate)) (not (earlier a b)))))
