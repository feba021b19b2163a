; Deliberate bugs. Each changes an action, and exactly the named conjuncts are then not kept by that action: each has an
; example in a small world. Bugs that are called as in `suffrage_lease::Bug` are those of the code.

(sizes (Voter 2) (Id 2) (Candidate 2) (Preparation 2) (Proposal 2) (Enquiry 1) (Majority 2))

; ---- Voters ----------------------------------------------------------------------------------------------------------

(bug skip-silence "A voter that restarts answers at once, whatever it may have granted."
  (in restart (set (silent-until v) clock))
  (breaks restart heart))
(bug forget-ceiling "A voter that restarts does not know what it may have promised."
  (in restart (set (promised v) 0))
  (breaks restart promises-kept accepts-kept))
(bug shrink-too-far "The longest lease on disk falls although a live grant has longer to run."
  (in shrink-longest (drop covers))
  (breaks shrink-longest accepts-kept))
(bug shrink-while-silent "The longest lease on disk falls while the voter is silent after a restart: it knows of no grant."
  (in shrink-longest (when (awake (votes v))))
  (breaks shrink-longest accepts-kept))
(bug forget-longest "A voter grants a longer lease than its disk knows of."
  (in accept (keep longest))
  (breaks accept accepts-kept))
(bug skip-save "A voter promises a token above the ceiling on its disk."
  (in promise (drop saves) (keep ceiling))
  (breaks promise ceiling-above))
(bug trust-empty-disk "A voter that finds its disk empty votes as if it had never been there."
  (in lose-disk (keep votes))
  (breaks lose-disk promises-kept accepts-kept heart))
(bug equal-tokens "A voter promises a token to a second candidate."
  (in promise (when (greater (>= (token p) (promised v)))))
  (breaks promise promised-once later-lives-greater))
(bug smaller-tokens "A voter promises a smaller token after a greater one."
  (in promise (drop greater))
  (breaks promise promises-kept accepts-kept promised-once later-lives-greater))
(bug accept-smaller-tokens "A voter accepts a smaller token than it has promised."
  (in accept (drop not-smaller))
  (breaks accept promises-kept accepts-kept heart accepted-otherwise))
(bug grant-while-held "A voter promises and grants while another's lease may be believed in: neither `on_prepare` nor
  `on_propose` looks whether the election is held."
  (in promise (drop not-held))
  (in accept (drop not-held))
  (breaks accept heart accepted-otherwise))
(bug forget-promise "A voter that forgets an election forgets what it promised."
  (in forget (when (greater (>= raised 0))))
  (breaks forget promises-kept accepts-kept))
(bug forget-grant "A voter forgets an election that is held."
  (in forget (drop free) (set (granted v) false))
  (breaks forget heart))
(bug expire-early "A voter removes a grant that has not expired."
  (in expire (drop over))
  (breaks expire heart))
(bug release-any-token "A voter takes a release of an earlier token for one of the grant."
  (in take-back (set (granted v) (and (granted v) (not (= (holder v) (id (owner p)))))))
  (breaks take-back heart))
(bug release-by-anybody "A voter takes a release of one candidate for that of another."
  (in take-back (set (granted v) false))
  (breaks take-back heart))
(bug answer-while-silent "A voter that is silent after a restart answers enquiries: it knows of no grant."
  (in answer-enquiry (when (awake (votes v))))
  (breaks answer-enquiry unheld-is-over))

; ---- Candidates ------------------------------------------------------------------------------------------------------

(bug validity-from-reply "A leader counts its lease from the answers, not from before the question."
  (in win (set (valid-until c) (+ (candidate-clock c) (validity c))))
  (breaks win lease-has-basis))
(bug note-after-sending "A candidate notes its clock after a voter may have granted the lease: here, when it wins."
  (in win (set (noted r) (candidate-clock c)) (set (valid-until c) (+ (candidate-clock c) (validity c))))
  (breaks win clock-not-too-slow))
(bug win-late "A candidate leads by a lease that is over already."
  (in win (drop still-valid))
  (breaks win never-back))
(bug win-without-majority "A candidate counts answers to other questions."
  (in win (drop majority))
  (breaks win lease-by-majority last-win-accepted never-back))
(bug request-collision "Two requests of candidates have the same number: answers to one count for the other."
  (in win (when (majority (exists ((s Proposal)) (forall ((v Voter)) (=> (in v m) (accept v s)))))))
  (breaks win lease-by-majority last-win-accepted never-back))
(bug propose-without-promises "A candidate proposes a token that no majority has promised."
  (in propose (drop majority))
  (breaks propose backed-by-majority))
(bug reuse-token "A candidate prepares a token that it has prepared before."
  (in prepare (when (greater (>= (token p) (greatest c)))))
  (breaks prepare tokens-once released-is-past))
(bug revive-lease "A leader that has handed over leads again if the answers to its last renewal come late."
  (in hand-over (keep open) (keep round))
  (breaks hand-over released-is-past proposes-after-win))
(bug release-while-leading "A leader releases its token and goes on leading."
  (in hand-over (keep holds))
  (breaks hand-over released-not-held))
(bug lose-while-leading "A leader whose greater token is refused gives it back: the only grant some voters have for it."
  (in lose (drop no-lease))
  (breaks lose released-not-held))
(bug release-unpromised "A candidate releases a token that no majority has promised."
  (in lose (set-all (released (p Preparation)) (or (released p) (= p (preparation c)))))
  (breaks lose released-backed))
(bug lapse-late "A candidate does not look at its clock before it looks at answers, and gives back a token while it has a
  lease."
  (in win-too-late (drop in-time))
  (breaks win-too-late released-not-held))

; ---- Lives -----------------------------------------------------------------------------------------------------------

(bug skip-wait-out "A candidate contends after a restart although a client of the node's previous boot may lead."
  (in start (set (waited-out c) true))
  (breaks start waited-out-is-over))
(bug count-the-missing "A candidate takes some voters' word that none of its earlier lives leads, where a majority may have
  no such voter."
  (in conclude (when (answered (exists ((m Majority)) (and (in (witness m) m) (unheld (witness m) (enquiry c)))))))
  (breaks conclude waited-out-is-over))
(bug ignore-boot "A voter takes two processes of one id for one holder, and the first one lives."
  (in start (drop one-process))
  (breaks start one-process lives-in-order waited-out-is-over))

; ---- Assumptions -----------------------------------------------------------------------------------------------------

(bug different-voters "Candidates have different lists of voters: their majorities need not meet."
  (without majorities-meet)
  (breaks consequence backed-once)
  (breaks safety never-two))
(bug half-is-enough "Half of the voters count as a majority."
  (lemma majorities (forall ((n Int)) (=> (>= n 1) (> (+ (div (+ n 1) 2) (div (+ n 1) 2)) n))))
  (breaks lemma majorities))
(bug voter-clock-jumps "A voter's clock jumps forward, or is faster than the bound."
  (in time (drop voters-fast))
  (breaks time heart))
(bug candidate-clock-stops "A candidate's clock stops in suspend, is set back, or is slower than the bound."
  (in time (drop candidates-slow))
  (breaks time clock-not-too-slow noted-before-now))
(bug drift-beyond-bound "Clocks differ by more than the validity allows for."
  (in time (drop drift))
  (breaks time drift-within-bound))
(bug validity-is-ttl "The validity is the whole ttl, as if clocks did not drift."
  (lemma validity (forall ((d Real) (time Real) (ttl Real) (validity Real))
    (=> (and (<= 0.0 d) (< d 0.5) (<= 0.0 time) (< 0.0 ttl) (<= validity ttl) (< (* (- 1.0 d) time) validity))
      (< (* (+ 1.0 d) time) ttl))))
  (breaks lemma validity))

; ---- Harmless for safety: the proof does not need what they leave out ----------------------------------------------------

(bug bump-while-held "A voter takes note of a greater token although the election is held. This costs a leader its token,
  not its lease."
  (in forget (drop free))
  (harmless))
(bug promise-while-held "A voter promises greater tokens while another holds a live grant. Of the two checks for `Held`,
  the one in `on_propose` suffices."
  (in promise (drop not-held))
  (harmless))
(bug shorten-grant "A grant ends a ttl after the last proposal, even if an earlier one lasted longer. No candidate has two
  ttls."
  (in accept (set (expires v) (+ (voter-clock v) (ttl (author r)))))
  (harmless))
(bug renew-after-end "A leader asks for its lease once more although it is over: it has not looked at its clock."
  (in renew (when (leads (holds c))))
  (harmless))
(bug forget-release "A voter takes a renewal that its own release has overtaken. This costs the next leader time."
  (in accept (drop not-given-back))
  (harmless))

; ---- Bugs of the code that are none of this model --------------------------------------------------------------------

(outside ignore-pin "A promise of a node to its own clients; docs/quorum-lease.md, section Clients of a node.")
(outside drop-wake-up "Costs time, not safety.")
(outside session-validity-from-reply "Clients of a node.")
(outside revoke-at-once "Clients of a node.")
(outside skip-drain "Model membership, bug forget-drain.")
(outside change-while-silent "Model membership, the bug of that name.")
(outside drop-grants "Model membership, the bug of that name.")
(outside old-version-votes "Model membership, bugs old-version-promises and old-version-grants.")
(outside mix-versions "Model membership, the bug of that name.")
(outside forget-floor "Model membership, bug low-floor.")
(outside blind-coordinator "Model choice, the bug of that name.")
(outside reply-before-save "A save that a restart loses: the actions of a voter save before they answer. Bugs
  forget-ceiling and skip-silence are what is lost.")
(outside skip-notice "A promise of a node to its own application: it releases what it holds, as it may at any moment.")
(outside lengthen-after-notice "A promise of a node to its own application. The lease is valid for as long as it was granted.")
(outside shared-lease "Clients of a node.")
(outside endless-turn "Clients of a node. Costs time, not safety.")
(outside undo-after-reply "Clients of a node.")
(outside skip-pin "Clients of a node.")
(outside stale-value "The value of a leader, on which no promise depends.")
(outside ignore-value-change "The value of a leader, on which no promise depends.")
(outside release-when-broken "Clients of a node, by connection.")
(outside deadline-beyond-lease "Clients of a node, by connection.")
(outside ignore-slew "Clients of a node, by connection.")
(outside keep-dead-holder "Clients of a node, by connection. Costs time, not safety.")

; ---- Situations that the invariant allows -----------------------------------------------------------------------------

(possible somebody-leads "Somebody leads."
  (exists ((c Candidate)) (leads c)))
(possible leads-while-preparing "A leader prepares a greater token."
  (exists ((c Candidate)) (and (leads c) (= (round c) preparing))))
(possible leads-by-the-silent "Somebody leads, and a voter that accepted is silent after a restart."
  (exists ((c Candidate) (v Voter)) (and (leads c) (accept v (basis c)) (silent v) (votes v))))
(possible led-one-after-another "One leads whose token is greater than that of another, which won before."
  (exists ((c Candidate) (v Voter) (r Proposal)) (and (leads c) (accept v (basis c)) (accept v r)
    (not (= (author r) c)) (not (= (id (author r)) (id c))))))
(possible client-outlives "A client leads whose node has restarted, and the new life waits."
  (exists ((a Candidate) (b Candidate)) (and (leads a) (earlier a b) (alive b) (not (waited-out b)))))
