//! The texts and runs of the gallery, by algorithm. The figures are golden scenarios of
//! `crates/suffrage-sim/tests/scenarios`, which name their sources.

/// What the gallery says of an algorithm.
pub(super) struct Entry {
    pub(super) name: &'static str,
    /// How the algorithm works.
    pub(super) how: &'static str,
    /// The flags of the figure's run, after `suffrage-lab simulate`.
    pub(super) figure: &'static str,
    /// What the figure shows.
    pub(super) figure_note: &'static str,
    /// The facts of `figure_note`, which the tests compare with the run: `facts.rs` has their grammar.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares the facts with the run"))]
    pub(super) figure_facts: &'static str,
    pub(super) breaks: &'static [Breaks],
}

/// What breaks an algorithm, or shows its limits.
pub(super) struct Breaks {
    pub(super) by: By,
    /// The words after `suffrage-lab check` or `suffrage-lab simulate`.
    pub(super) words: &'static str,
    pub(super) note: &'static str,
    /// The facts of `note`.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares the facts with the run"))]
    pub(super) facts: &'static str,
}

/// The command that finds what breaks an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The model checker, with the shortest schedule.
    Check,
    /// The simulator.
    Simulate,
}

/// The shortest schedule of the model checker.
const fn check(words: &'static str, note: &'static str, facts: &'static str) -> Breaks {
    Breaks { by: By::Check, words, note, facts }
}

/// A run of the simulator.
const fn simulate(words: &'static str, note: &'static str, facts: &'static str) -> Breaks {
    Breaks { by: By::Simulate, words, note, facts }
}

const CUT: &str = "The network is cut in two, and each part elects a leader of its own: two lead until the cut is healed. The \
                   contract says so: one leader in the end, several while faults last.";

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "bully",
        how: "A process that misses the leader sends Election to all better processes. Each that is alive answers and holds \
              an election of its own. A process that gets no answer within a round trip is the best of the living: it sends \
              Coordinator to all others, and they follow. The best always wins, and takes over when it comes back.",
        figure: "bully --nodes 6 --crashed 6 --initiator 3",
        figure_note: "Six processes, 6 has crashed, and 3 notices. 4 and 5 answer and hold elections of their own. Nobody \
                      above 5 answers, so 5 announces itself.",
        figure_facts: "processes 6; crashed 6; calls 3; 4 sends Answer to 3; 5 sends Answer to 3; 4 sends Election \
                       to 5; 5 sends Election to 6; 5 sends Coordinator to 1; leader 5",
        breaks: &[check(
            "bully",
            "The algorithm needs a bound on message delays. If an answer is late, the caller believes that \
                 nobody better is alive. The model checker finds two leaders after three steps.",
            "steps 3; together 2",
        )],
    },
    Entry {
        name: "modified-bully",
        how: "The caller asks all better processes, and waits for their replies before it decides. It then tells the best of \
              them to proceed, and only that process announces itself. One election replaces the many of the bully \
              algorithm, at the cost of a second wait.",
        figure: "modified-bully --nodes 6 --crashed 6 --initiator 3",
        figure_note: "6 is dead and 3 notices. It asks 4, 5 and 6; 4 and 5 reply; 3 lets 5 proceed, and 5 announces itself: \
                      ten messages.",
        figure_facts: "crashed 6; calls 3; 3 sends Election to 4; 3 sends Election to 5; 3 sends Election to 6; 4 \
                       sends Alive to 3; 5 sends Alive to 3; 3 sends Proceed to 5; 5 sends Elected to 1; leader 5; \
                       messages 10",
        breaks: &[check(
            "modified-bully",
            "As in the bully algorithm, a late reply counts as no reply, and two processes lead: 2 has waited in \
                 vain for 3.",
            "together 2; 2 leads; 3 leads",
        )],
    },
    Entry {
        name: "next-in-line",
        how: "A leader names its successors when it announces itself. When it fails, a process contacts the first of them; \
              if that one is alive it announces itself at once. Only if all named successors are dead is a full election \
              held.",
        figure: "next-in-line --nodes 6 --crashed 6 --initiator 3 --alternatives 5,4",
        figure_note: "6 is dead and had named 5 and 4. 3 contacts 5, which is alive and announces itself: six messages.",
        figure_facts: "crashed 6; calls 3; 3 sends Contact to 5; 5 sends Elected to 4; leader 5; messages 6",
        breaks: &[
            check(
                "next-in-line",
                "A late reply counts as no reply. 2 waits in vain for 3 and leads; 3 calls an election of its own, \
                 and leads too: three steps.",
                "steps 3; together 2; 2 leads; 3 leads",
            ),
            simulate("next-in-line --partition 1,2|3,4,5@20..60 --detector ideal:2", CUT, "together 2"),
        ],
    },
    Entry {
        name: "candidate-ordinary",
        how: "Only some processes are candidates; the others are ordinary. A process that misses the leader waits for a time \
              that depends on its rank, so that one of them calls first. It asks the candidates, and tells everyone that \
              the best of those that replied leads.",
        figure: "candidate-ordinary --nodes 6 --candidates 1,2,6 --crashed 6 --initiator 4",
        figure_note: "1, 2 and 6 are candidates, and 6 is dead. The ordinary process 4 asks them, 1 and 2 reply, and 4 tells \
                      everyone that 2 leads.",
        figure_facts: "crashed 6; calls 4; 4 sends Election to 1; 4 sends Election to 2; 4 sends Election to 6; 1 \
                       sends Alive to 4; 2 sends Alive to 4; 4 sends Elected to 5; leader 2",
        breaks: &[
            check(
                "candidate-ordinary",
                "2 asks 3, and leads because the reply is late. Its announcement reaches 3, which is better and \
                 takes over before 2 knows: two lead after three steps.",
                "steps 3; together 2; 2 leads; 3 leads",
            ),
            simulate("candidate-ordinary --partition 1,2|3,4,5@20..60 --detector ideal:2", CUT, "together 2"),
        ],
    },
    Entry {
        name: "invitation",
        how: "Every process starts as the leader of a group of one. Leaders look for other leaders and invite them; groups \
              merge, and the leader of the larger group stays. Followers ask now and then whether their leader is there; \
              if it is not, each is alone again. A cut leaves two groups, which merge when it is healed.",
        figure: "invitation --nodes 4 --rank lowest-id --initiator 1,3 --first successor --until 14",
        figure_note: "1 invites 2, and 3 invites 4. Then 1 contacts 3, 3 joins with its group, and 4 is notified: 1 leads all.",
        figure_facts: "1 sends Invitation to 2; 3 sends Invitation to 4; 1 sends Invitation to 3; 3 sends Accept to \
                       1; 3 sends Merged to 4; leader 1",
        breaks: &[simulate(
            "invitation --partition 1,2|3,4,5@40..120 --until 200",
            "The model checker needs no step: every process starts as the leader of a group of one. A cut leaves \
                 a leader in each part, which is what the algorithm is for: work goes on in both. After healing, the \
                 groups merge as groups, and 5 leads all.",
            "together 5; leader 5",
        )],
    },
    Entry {
        name: "chang-roberts",
        how: "Processes form a ring. A caller sends its id to its successor. A process passes a greater id on, and replaces a \
              smaller one by its own. An id that comes back to its owner has beaten all others: the owner leads, and an \
              Elected message goes round once more.",
        figure: "chang-roberts --ids 3,32,5,80,6,12 --initiator 3",
        figure_note: "The ring 3, 32, 5, 80, 6, 12; 3 calls. The id 80 goes round, and everybody ends with 80.",
        figure_facts: "processes 6; calls 3; 80 sends Election to 6; 12 sends Election to 3; 32 sends Election to 5; \
                       5 sends Election to 80; leader 80",
        breaks: &[
            check(
                "chang-roberts --timers 1",
                "An acknowledgement is late, and 2 skips its living successor. Two Election messages are in the \
                 ring, and both 2 and 3 get their own id back: eight steps.",
                "steps 8; together 2; 2 leads; 3 leads",
            ),
            simulate(
                "chang-roberts --ids 3,32,5,80,6,12 --initiator 3 --crash 80@5 --repair none --until 60",
                "The best process dies after its id has gone on, and nobody takes the id out of the ring: Election \
                 80 circulates for ever, and nobody leads. This is the ring without repair; with repair, which is \
                 the default, the predecessor notices.",
                "crashed 80; 5 sends Election to 80; 5 sends Election to 6; nobody leads",
            ),
        ],
    },
    Entry {
        name: "collecting-ring",
        how: "A message goes round the ring and collects the ids of all live processes. A dead successor does not acknowledge, \
              and is skipped. Back at its caller, the best of the collected ids is the leader, and a second round tells \
              everybody.",
        figure: "collecting-ring --nodes 6 --crashed 6 --initiator 3",
        figure_note: "6 is dead, and 3 calls. 5's message to 6 is not acknowledged and goes on to 1. Back at 3, the best of \
                      the collected ids is 5.",
        figure_facts: "crashed 6; calls 3; 5 sends Election to 6; 5 sends Election to 1; 2 sends Election to 3; \
                       leader 5",
        breaks: &[
            check(
                "collecting-ring --timers 1",
                "An acknowledgement is late, and 2 skips 3, which is alive and the best. 2 leads the list without 3; \
                 3 learns of it, calls an election of its own, and leads while 2 still does.",
                "together 2; 2 leads; 3 leads",
            ),
            simulate("collecting-ring --partition 1,2|3,4,5@20..60 --detector ideal:2", CUT, "together 2"),
        ],
    },
    Entry {
        name: "maximum-ring",
        how: "The collecting ring, with a message that carries only the greatest id met so far: ids are only compared, so one \
              is enough. The counts are the same, and the messages have a constant size.",
        figure: "maximum-ring --nodes 6 --crashed 6 --initiator 3",
        figure_note: "The run of the collecting ring, with the greatest id in place of all ids.",
        figure_facts: "crashed 6; calls 3; 5 sends Election to 6; 5 sends Election to 1; leader 5; messages 12",
        breaks: &[
            check(
                "maximum-ring --timers 1",
                "The schedule of the collecting ring: 2 skips 3 because an acknowledgement is late, and both lead \
                 after eight steps.",
                "steps 8; together 2; 2 leads; 3 leads",
            ),
            simulate("maximum-ring --partition 1,2|3,4,5@20..60 --detector ideal:2", CUT, "together 2"),
        ],
    },
    Entry {
        name: "stable-leader",
        how: "Processes go through numbered rounds; the round's number says who leads it. The leader sends Ok each period. A \
              process that misses it starts the next round. A process that is behind is told the round and joins it. So a \
              leader that is up and connected stays, whoever comes back.",
        figure: "stable-leader --nodes 4 --until 6",
        figure_note: "Everybody is in round 0, which 1 leads. After two Ok, a period apart, all believe in it.",
        figure_facts: "1 leads in term 0 at 5; 1 sends Ok to 2 at 0; 1 sends Ok to 2 at 5; leader 1",
        breaks: &[
            check(
                "stable-leader --timers 3",
                "1 leads round 0, but its Ok is late. The timer of 2 fires, 2 starts round 1, and leads it before 1 \
                 hears of it: three steps.",
                "steps 3; together 2; 1 leads in term 0; 2 leads in term 1",
            ),
            simulate(
                "stable-leader --nodes 5 --partition 1,2|3,4,5@20..80 --until 140",
                "A cut separates the leader from three others. They start new rounds and have a leader of their own, \
                 while 1 goes on to lead 2: two lead.",
                "together 2; 1 leads in term 0; cut off 3",
            ),
        ],
    },
    Entry {
        name: "announce",
        how: "Every process announces itself to the whole group by multicast, and the greatest of those heard leads. Then only \
              the leader announces itself, each period. All beliefs are soft state: what is not repeated is forgotten, and \
              what was lost is made good by the next announcement.",
        figure: "announce --nodes 4 --until 4",
        figure_note: "Four processes announce themselves, and the greatest leads.",
        figure_facts: "processes 4; multicasts 4; leader 4",
        breaks: &[
            check(
                "announce",
                "The announcement of 3 is late. 1 has waited for long enough, has heard nobody, and leads beside 3 \
                 after a single step.",
                "steps 1; together 2; 1 leads; 3 leads",
            ),
            simulate("announce --nodes 5 --partition 1,2|3,4,5@20..60 --until 120", CUT, "together 2"),
        ],
    },
    Entry {
        name: "suppress",
        how: "As in announce, but a process waits for a random time before it speaks, and is silent if it has heard a better \
              one by then. In a large group only a few speak.",
        figure: "suppress --nodes 6 --until 13",
        figure_note: "Six processes wait for random times; three of them speak, and those that hear a better one by \
                      then say nothing.",
        figure_facts: "processes 6; multicasts 3; leader 6",
        breaks: &[
            check(
                "suppress --timers 3",
                "1 speaks first, and leads when nobody has answered in time. 3 wakes later, is better, and leads \
                 too: three steps.",
                "steps 3; together 2; 1 leads; 3 leads",
            ),
            simulate("suppress --nodes 5 --partition 1,2|3,4,5@20..120 --until 200", CUT, "together 2"),
        ],
    },
    Entry {
        name: "raft",
        how: "A process that hears nothing from a leader for a random time-out stands for election in the next term and asks \
              all for their votes. A process gives one vote a term, and writes it down first. A majority of votes makes a \
              leader, which sends heartbeats. Two majorities share a process, so a term has at most one leader. Before it \
              disturbs anybody, a candidate asks who would vote for it.",
        figure: "raft --nodes 3 --initiator 3 --until 10",
        figure_note: "3 asks who would vote for it, asks for votes, and is heard to lead.",
        figure_facts: "calls 3; 3 sends PreVote to 1; 3 sends RequestVote to 2; 3 sends Heartbeat to 1; leader 3",
        breaks: &[
            check(
                "raft --forget-votes on --restarts 1 --pre-vote off --check-quorum off",
                "Nothing breaks it within its assumptions. A deliberate bug does: a process that forgets its vote in \
                 a crash can vote twice in one term, and two lead in it. The model checker finds the shortest \
                 schedule.",
                "together 2",
            ),
            simulate(
                "raft --nodes 3 --initiator 3 --check-quorum off --partition 3|1,2@10..60 --until 80",
                "Two may lead in different terms. 3 leads in term 1 and is cut off. 1 leads in term 2, and 3 \
                 believes in itself until the cut is healed: without check-quorum, nothing tells it. A resource must \
                 refuse the older term.",
                "calls 3; together 2; 3 leads in term 1; 1 leads in term 2; leader 1",
            ),
        ],
    },
    Entry {
        name: "grid-quorum",
        how: "Processes stand in a grid. A candidate needs the locks of a row and of a column; any two such sets share a \
              process, so two candidates cannot have all their locks at once. A process that is locked for a worse \
              candidate inquires, and the worse one relinquishes, so nobody waits for ever.",
        figure: "grid-quorum --nodes 9 --initiator 5",
        figure_note: "The grid 1 2 3 / 4 5 6 / 7 8 9. 5 asks 4 and 6, 2 and 8, and has their locks after a round trip.",
        figure_facts: "processes 9; calls 5; 5 sends Elected to 3; 5 sends Elected to 7; 5 sends Request to 4; 5 sends Request to 6; 5 sends Request to 2; 5 \
                       sends Request to 8; 5 leads in term 1 at 2; leader 5",
        breaks: &[
            simulate(
                "grid-quorum --nodes 4 --initiator 4 --partition 4|1,2,3@10..40 --detector ideal:2",
                "Two may lead in different terms. 4 leads in term 1 and is cut off. The others suspect it and elect \
                 3 in term 2, while 4 believes in itself until the cut is healed.",
                "calls 4; together 2; 4 leads in term 1; 3 leads in term 2; leader 3",
            ),
            simulate(
                "grid-quorum --nodes 9 --initiator 1 --crash 1@20,5@20,9@20 --recover 5@200 --detector ideal:2",
                "The dead processes 1, 5 and 9 of nine are a diagonal, which is in all rows and columns: nobody can be \
                 elected until 5 is back.",
                "processes 9; crashed 1; crashed 5; crashed 9; recovered 5; leader 8; no leader between 20 and 200",
            ),
        ],
    },
    Entry {
        name: "quorum-lease",
        how: "A few processes are voters. A candidate asks them to promise a fencing token, notes its clock, and asks them for \
              a lease with this token. A majority makes it leader from then on, until the lease ends by its own clock, \
              which is earlier than at the voters by the bound on the drift of clocks. It renews well before. Tokens \
              increase, so that a resource can refuse the requests of an old leader.",
        figure: "quorum-lease --nodes 4 --voters 3 --initiator 4 --until 15",
        figure_note: "4 asks three voters for a promise and then for a lease. It leads after four delays, and renews at 12.",
        figure_facts: "4 sends Prepare to 1; 4 sends Prepare to 2; 4 sends Prepare to 3; 4 sends Propose to 3; 4 \
                       leads in term 1 at 4; 4 sends Renew to 1 at 12; leader 4",
        breaks: &[simulate(
            "quorum-lease --voters 3 --changes on --ttl 10 --renew 3 --ids 3,1,4,2 --initiator 3,1,2 --crash \
                 4@36.6 --recover 4@43.7,4@93.5 --pause 4@64.6..91,1@91.7..127.4 --crash-midway 4:5@83.8 \
                 --heal-all-at 300 --latency exp:0.3 --drift 40% --until 320 --limit 162000 --seed 56",
            "Neither the torture nor the model checker finds anything within its assumptions. Here clocks drift \
                 by 40%, far beyond the bound, and two processes lead at once. `suffrage-lab torture quorum-lease \
                 --drift 40%` found and shrank this run.",
            "together 2",
        )],
    },
    Entry {
        name: "gupta",
        how: "For thousands of processes. Each decides by a hash of its id and the round whether it may relay, so that about K \
              do, without a message. These exchange their preferred leaders and multicast the result. If nobody hears a \
              result, the next round has more relays. Success has a known probability.",
        figure: "gupta --nodes 6 --first-k 3 --crash 2@4 --seed 106",
        figure_note: "Three members enter the relay phase, and one of them fails. The other two exchange preferences, and each \
                      multicasts the leader.",
        figure_facts: "2 sends Preference to 3; 3 sends Preference to 6; 6 sends Preference to 2; crashed 2; 3 \
                       multicasts FinalChoice; 6 multicasts FinalChoice; leader 6",
        breaks: &[
            simulate(
                "gupta --nodes 2 --partition 1|2@30..70 --detector ideal:2 --until 120",
                "2 leads and is cut off. 1 misses it, elects itself, and two lead until the cut is healed.",
                "together 2; 2 leads in term 1; 1 leads in term 2; leader 1",
            ),
            simulate(
                "gupta --nodes 60 --first-k 1 --growth 8 --seed 4",
                "With K = 1 it is likely that nobody may relay. Nobody hears a final choice, and the election needs \
                 another round. The algorithm promises success only with a probability.",
                "processes 60; figure rounds 2; leader 60",
            ),
        ],
    },
    Entry {
        name: "randomized",
        how: "Contenders throw balls at random mediators. A contender goes on to the next round if it is the first at all of \
              its mediators; each round has more balls, and fewer contenders. The last ones ask enough mediators that two \
              of them would meet at one, with high probability.",
        figure: "randomized --nodes 8 --initiator all --mode sync --rounds figure1 --seed 35661",
        figure_note: "Of eight contenders with one ball each, 2, 4, 5 and 6 proceed; with two balls each, 5 and 6; with five, \
                      6 is the leader. With this seed every ball falls as in the paper.",
        figure_facts: "processes 8; calls 8; 2 sends Request to 4 at 2; 4 sends Request to 6 at 2; 5 sends Request \
                       to 1 at 2; 6 sends Request to 3 at 2; leader 6",
        breaks: &[
            check(
                "randomized --nodes 2",
                "The algorithm is for one election. 2 has followed 1, and is told to call another: the mediators \
                 serve it, and 2 leads before 1 hears of it.",
                "together 2; 1 leads; 2 leads",
            ),
            simulate(
                "randomized --nodes 30 --initiator all --loss 0.3 --until 200 --seed 1",
                "With a loss of 0.3, contenders wait for answers that do not come, and nobody leads.",
                "nobody leads",
            ),
        ],
    },
    Entry {
        name: "probabilistic-quorum",
        how: "Each contender asks a random set of processes that is large enough to meet every other such set with high \
              probability. The processes answer one contender and refuse the others. There is no first phase that thins \
              out the contenders, so it needs many more messages than the randomized algorithm.",
        figure: "probabilistic-quorum --nodes 8 --initiator 2,5",
        figure_note: "2 and 5 contend. Their sets meet, and one of them wins.",
        figure_facts: "calls 2; calls 5; 2 sends REQ to 5; 5 sends REQ to 2; leader 2",
        breaks: &[
            check(
                "probabilistic-quorum --nodes 2",
                "As in the randomized algorithm, a second election does not end the first leader: 2 leads before 1 \
                 hears of it.",
                "together 2; 1 leads; 2 leads",
            ),
            simulate(
                "probabilistic-quorum --nodes 30 --initiator all --loss 0.3 --until 200 --seed 1",
                "With a loss of 0.3, a contender that misses an answer does not win, and nobody leads.",
                "nobody leads",
            ),
        ],
    },
];
