; How the voters of one configuration choose its one successor: single-decree Paxos, with state on disk.

(model "a configuration has one successor")

(sort Voter "A voter of the configuration.")
(sort Voters "A set of these voters.")
(sort Ballot "An attempt of a coordinator.")
(sort Configuration "What may succeed.")

(constant (in Voter Voters) Bool "The voter is in the set.")
(constant (majority Voters) Bool "The set is a majority.")
(constant (common Voters Voters) Voter "A voter that is in both.")
(constant (number Ballot) Int "Orders ballots: counter, node id and boot of the coordinator.")
(axiom majorities-meet "Any two majorities have a voter in common."
  (forall ((m Voters) (n Voters)) (! (=> (and (majority m) (majority n)) (and (in (common m n) m) (in (common m n) n)))
    :pattern ((majority m) (majority n)))))
(axiom ballots-differ "No two ballots have the same number. Numbers are positive."
  (and (forall ((b Ballot)) (> (number b) 0))
    (forall ((a Ballot) (b Ballot)) (=> (= (number a) (number b)) (= a b)))))

(state (promised Voter) Int "On disk: the greatest ballot promised or accepted; 0 if none.")
(state (has-accepted Voter) Bool "On disk: it has accepted something.")
(state (last-accepted Voter) Ballot "On disk: in which ballot last.")
(state (reported Voter Ballot) Bool "ChangePromised.")
(state (report-has Voter Ballot) Bool "It says that the voter had accepted something,")
(state (report-ballot Voter Ballot) Ballot "and in which ballot last.")
(state (proposed Ballot) Bool "ChangeAccept has been sent.")
(state (proposal Ballot) Configuration "Which configuration it carries.")
(state (accepted Voter Ballot) Bool "ChangeAccepted.")
(state (chosen-in Ballot) Bool "A majority has accepted it in this ballot.")
(state (reporters Ballot) Voters "Ghost: whose reports the proposal rests on.")
(state (choosers Ballot) Voters "Ghost: which majority has chosen it.")

(initially "Nothing has happened."
  (and (forall ((v Voter)) (and (= (promised v) 0) (not (has-accepted v))))
    (forall ((b Ballot)) (and (not (proposed b)) (not (chosen-in b))))
    (forall ((v Voter) (b Ballot)) (and (not (reported v b)) (not (accepted v b))))))

(action promise-ballot "A voter promises a greater ballot, and reports what it has accepted."
  (code "crates/suffrage-lease/src/membership/acceptor.rs" "promise")
  (for (v Voter) (b Ballot))
  (when
    (greater (> (number b) (promised v))))
  (set (promised v) (number b))
  (set (reported v b) true)
  (set (report-has v b) (has-accepted v))
  (set (report-ballot v b) (last-accepted v)))

(action propose-own "No voter of a majority has accepted anything: the coordinator proposes what it likes."
  (code "crates/suffrage-lease/src/membership/coordinator.rs" "on_promised")
  (for (b Ballot) (m Voters) (g Configuration))
  (when
    (once (not (proposed b)))
    (majority (and (majority m) (forall ((v Voter)) (=> (in v m) (reported v b)))))
    (none (forall ((v Voter)) (=> (in v m) (not (report-has v b))))))
  (set (proposed b) true)
  (set (proposal b) g)
  (set (reporters b) m))

(action adopt "A voter of the majority has accepted something: the coordinator proposes what was accepted in the greatest
  ballot, unchanged."
  (code "crates/suffrage-lease/src/membership/coordinator.rs" "on_promised")
  (for (b Ballot) (m Voters) (w Voter))
  (when
    (once (not (proposed b)))
    (majority (and (majority m) (forall ((v Voter)) (=> (in v m) (reported v b)))))
    (some (and (in w m) (report-has w b)))
    (greatest (forall ((v Voter)) (=> (and (in v m) (report-has v b))
      (<= (number (report-ballot v b)) (number (report-ballot w b)))))))
  (set (proposed b) true)
  (set (proposal b) (proposal (report-ballot w b)))
  (set (reporters b) m))

(action accept-change "A voter accepts, unless it has promised a greater ballot."
  (code "crates/suffrage-lease/src/membership/acceptor.rs" "accept")
  (for (v Voter) (b Ballot))
  (when
    (sent (proposed b))
    (not-smaller (>= (number b) (promised v))))
  (set (promised v) (number b))
  (set (has-accepted v) true)
  (set (last-accepted v) b)
  (set (accepted v b) true))

(action choose "A majority has accepted in one ballot."
  (code "crates/suffrage-lease/src/membership/coordinator.rs" "on_accepted")
  (for (b Ballot) (m Voters))
  (when
    (majority (and (majority m) (forall ((v Voter)) (=> (in v m) (accepted v b))))))
  (set (chosen-in b) true)
  (set (choosers b) m))

(action restart "A voter restarts with what is on its disk."
  (code "crates/suffrage-lease/src/voter.rs" "start")
  (for (v Voter))
  (when)
  (set (promised v) (promised v)))

(invariant promises-kept "A voter keeps its promises."
  (forall ((v Voter) (b Ballot)) (=> (or (reported v b) (accepted v b)) (<= (number b) (promised v)))))
(invariant accepts-proposals "Only proposals are accepted."
  (forall ((v Voter) (b Ballot)) (=> (accepted v b) (proposed b))))
(invariant remembers-last "A voter knows the greatest ballot in which it has accepted."
  (forall ((v Voter)) (and (=> (has-accepted v) (accepted v (last-accepted v)))
    (forall ((b Ballot)) (=> (accepted v b) (and (has-accepted v) (<= (number b) (number (last-accepted v)))))))))
(invariant reports-true "A report names the greatest ballot below its own in which the voter ever accepts."
  (forall ((v Voter) (b Ballot)) (=> (reported v b) (and
    (=> (report-has v b) (and (accepted v (report-ballot v b)) (< (number (report-ballot v b)) (number b))))
    (forall ((a Ballot)) (=> (and (accepted v a) (< (number a) (number b)))
      (and (report-has v b) (<= (number a) (number (report-ballot v b))))))))))
(invariant reporters-reported "A proposal rests on the reports of a majority."
  (forall ((b Ballot)) (=> (proposed b) (and (majority (reporters b))
    (forall ((v Voter)) (=> (in v (reporters b)) (reported v b)))))))
(invariant smaller-cannot-be-chosen "What is proposed in a smaller ballot and differs cannot be chosen: every majority has a
  voter that has not accepted it, and has promised a greater ballot."
  (forall ((a Ballot) (b Ballot) (m Voters))
    (=> (and (majority m) (proposed a) (proposed b) (< (number a) (number b)) (not (= (proposal a) (proposal b))))
      (exists ((v Voter)) (and (in v m) (not (accepted v a)) (> (promised v) (number a)))))))
(invariant chosen-by-majority "A majority accepted what is chosen."
  (forall ((b Ballot)) (=> (chosen-in b) (and (majority (choosers b))
    (forall ((v Voter)) (=> (in v (choosers b)) (accepted v b)))))))

(safety one-successor "No two different configurations are chosen."
  (forall ((a Ballot) (b Ballot)) (=> (and (chosen-in a) (chosen-in b)) (= (proposal a) (proposal b)))))

(bug blind-coordinator "A coordinator proposes its own configuration although a voter has accepted another."
  (in propose-own (drop none))
  (breaks propose-own smaller-cannot-be-chosen))
(bug adopt-any "A coordinator adopts what was accepted in some ballot, not in the greatest."
  (in adopt (drop greatest))
  (breaks adopt smaller-cannot-be-chosen))
(bug volatile-ballots "A voter that restarts has forgotten what it promised and accepted."
  (in restart (set (promised v) 0) (set (has-accepted v) false))
  (breaks restart promises-kept remembers-last smaller-cannot-be-chosen))
(bug accept-smaller-ballots "A voter accepts in a smaller ballot than it has promised."
  (in accept-change (drop not-smaller))
  (breaks accept-change promises-kept remembers-last reports-true smaller-cannot-be-chosen))
(bug promise-smaller-ballots "A voter promises a smaller ballot than it has promised."
  (in promise-ballot (drop greater))
  (breaks promise-ballot promises-kept reports-true smaller-cannot-be-chosen))
(bug propose-twice "A coordinator proposes two configurations in one ballot."
  (in propose-own (drop once))
  (breaks propose-own smaller-cannot-be-chosen))
(bug choose-without-majority "A coordinator counts acceptances of other ballots."
  (in choose (drop majority))
  (breaks choose chosen-by-majority))

(possible superseded "Two different configurations are proposed, and the later one is chosen."
  (exists ((a Ballot) (b Ballot)) (and (proposed a) (chosen-in b) (< (number a) (number b))
    (not (= (proposal a) (proposal b))))))
(possible completed "A configuration is chosen in two ballots."
  (exists ((a Ballot) (b Ballot)) (and (chosen-in a) (chosen-in b) (not (= a b)))))

(sizes (Ballot 4) (Voter 3) (Voters 3))
(because adopt smaller-cannot-be-chosen reports-true reporters-reported promises-kept accepts-proposals)
(because propose-own smaller-cannot-be-chosen reports-true reporters-reported promises-kept accepts-proposals)
