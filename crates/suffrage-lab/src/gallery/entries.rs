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
    pub(super) breaks: Breaks,
}

/// What breaks an algorithm, or shows its limits.
pub(super) enum Breaks {
    /// The shortest schedule of the model checker.
    Check { words: &'static str, note: &'static str },
    /// A run of the simulator.
    Simulate { words: &'static str, note: &'static str },
}

use Breaks::{Check, Simulate};

const CUT: &str = "The network is cut in two. Each part hears nothing of the other and elects a leader of its own, so two \
                   lead until the cut is healed. The contract says so: one leader in the end, several while faults last.";

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "bully",
        how: "A process that misses the leader sends Election to all better processes. Each that is alive answers and holds \
              an election of its own. A process that gets no answer within a round trip is the best of the living: it sends \
              Coordinator to all others, and they follow. The best always wins, and takes over when it comes back.",
        figure: "bully --nodes 6 --crashed 6 --initiator 3",
        figure_note: "Six processes, 6 has crashed, and 3 notices. 4 and 5 answer and hold elections of their own. Nobody \
                      above 5 answers, so 5 announces itself.",
        breaks: Check {
            words: "bully",
            note: "The algorithm needs a bound on message delays. If an answer is late, the caller believes that nobody \
                   better is alive. The model checker finds two leaders after three steps.",
        },
    },
    Entry {
        name: "modified-bully",
        how: "The caller asks all better processes, and waits for their replies before it decides. It then tells the best of \
              them to proceed, and only that process announces itself. One election replaces the many of the bully \
              algorithm, at the cost of a second wait.",
        figure: "modified-bully --nodes 6 --crashed 6 --initiator 3",
        figure_note: "6 is dead and 3 notices. It asks 4, 5 and 6; 4 and 5 reply; 3 lets 5 proceed, and 5 announces itself: \
                      ten messages.",
        breaks: Check {
            words: "modified-bully",
            note: "As in the bully algorithm, a late reply counts as no reply, and two processes lead.",
        },
    },
    Entry {
        name: "next-in-line",
        how: "A leader names its successors when it announces itself. When it fails, a process contacts the first of them; \
              if that one is alive it announces itself at once. Only if all named successors are dead is a full election \
              held.",
        figure: "next-in-line --nodes 6 --crashed 6 --initiator 3 --alternatives 5,4",
        figure_note: "6 is dead and had named 5 and 4. 3 contacts 5, which is alive and announces itself: six messages.",
        breaks: Simulate { words: "next-in-line --partition 1,2|3,4,5@20..60 --detector ideal:2", note: CUT },
    },
    Entry {
        name: "candidate-ordinary",
        how: "Only some processes are candidates; the others are ordinary. A process that misses the leader waits for a time \
              that depends on its rank, so that one of them calls first. It asks the candidates, and tells everyone that \
              the best of those that replied leads.",
        figure: "candidate-ordinary --nodes 6 --candidates 1,2,6 --crashed 6 --initiator 4",
        figure_note: "1, 2 and 6 are candidates, and 6 is dead. The ordinary process 4 asks them, 1 and 2 reply, and 4 tells \
                      everyone that 2 leads.",
        breaks: Simulate {
            words: "candidate-ordinary --partition 1,2|3,4,5@20..60 --detector ideal:2",
            note: CUT,
        },
    },
    Entry {
        name: "invitation",
        how: "Every process starts as the leader of a group of one. Leaders look for other leaders and invite them; groups \
              merge, and the leader of the larger group stays. Followers ask now and then whether their leader is there; \
              if it is not, each is alone again. A cut leaves two groups, which merge when it is healed.",
        figure: "invitation --nodes 4 --rank lowest-id --initiator 1,3 --first successor --until 14",
        figure_note: "1 invites 2, and 3 invites 4. Then 1 contacts 3, 3 joins with its group, and 4 is notified: 1 leads all.",
        breaks: Simulate {
            words: "invitation --partition 1,2|3,4,5@40..120 --until 200",
            note: "A cut leaves a leader in each part, which is what the algorithm is for: work goes on in both. After \
                   healing, the groups merge as groups.",
        },
    },
    Entry {
        name: "chang-roberts",
        how: "Processes form a ring. A caller sends its id to its successor. A process passes a greater id on, and replaces a \
              smaller one by its own. An id that comes back to its owner has beaten all others: the owner leads, and an \
              Elected message goes round once more.",
        figure: "chang-roberts --ids 3,32,5,80,6,12 --initiator 3",
        figure_note: "The ring 3, 32, 5, 80, 6, 12; 3 calls. The id 80 goes round, and everybody ends with 80.",
        breaks: Simulate {
            words: "chang-roberts --ids 3,32,5,80,6,12 --initiator 3 --crash 80@5 --repair none --until 60",
            note: "The best process dies after its id has gone on, and nobody takes the id out of the ring: Election 80 \
                   circulates for ever, and nobody leads. This is the ring without repair; with repair, which is the \
                   default, the predecessor notices.",
        },
    },
    Entry {
        name: "collecting-ring",
        how: "A message goes round the ring and collects the ids of all live processes. A dead successor does not acknowledge, \
              and is skipped. Back at its caller, the best of the collected ids is the leader, and a second round tells \
              everybody.",
        figure: "collecting-ring --nodes 6 --crashed 6 --initiator 3",
        figure_note: "6 is dead, and 3 calls. 5's message to 6 is not acknowledged and goes on to 1. Back at 3, the best of \
                      the collected ids is 5.",
        breaks: Simulate {
            words: "collecting-ring --partition 1,2|3,4,5@20..60 --detector ideal:2",
            note: CUT,
        },
    },
    Entry {
        name: "maximum-ring",
        how: "The collecting ring, with a message that carries only the greatest id met so far: ids are only compared, so one \
              is enough. The counts are the same, and the messages have a constant size.",
        figure: "maximum-ring --nodes 6 --crashed 6 --initiator 3",
        figure_note: "The run of the collecting ring, with the greatest id in place of all ids.",
        breaks: Simulate { words: "maximum-ring --partition 1,2|3,4,5@20..60 --detector ideal:2", note: CUT },
    },
    Entry {
        name: "stable-leader",
        how: "Processes go through numbered rounds; the round's number says who leads it. The leader sends Ok each period. A \
              process that misses it starts the next round. A process that is behind is told the round and joins it. So a \
              leader that is up and connected stays, whoever comes back.",
        figure: "stable-leader --nodes 4 --until 6",
        figure_note: "Everybody is in round 0, which 1 leads. After two Ok, a period apart, all believe in it.",
        breaks: Simulate {
            words: "stable-leader --nodes 5 --partition 1,2|3,4,5@20..80 --until 140",
            note: "A cut separates the leader from three others. They start new rounds and have a leader of their own, \
                   while 1 goes on to lead 2.",
        },
    },
    Entry {
        name: "announce",
        how: "Every process announces itself to the whole group by multicast, and the greatest of those heard leads. Then only \
              the leader announces itself, each period. All beliefs are soft state: what is not repeated is forgotten, and \
              what was lost is made good by the next announcement.",
        figure: "announce --nodes 4 --until 4",
        figure_note: "Four processes announce themselves, and the greatest leads.",
        breaks: Simulate { words: "announce --nodes 5 --partition 1,2|3,4,5@20..60 --until 120", note: CUT },
    },
    Entry {
        name: "suppress",
        how: "As in announce, but a process waits for a random time before it speaks, and is silent if it has heard a better \
              one by then. In a large group only a few speak.",
        figure: "suppress --nodes 6 --until 13",
        figure_note: "Six processes wait for random times; those that hear a better one say nothing.",
        breaks: Simulate { words: "suppress --nodes 5 --partition 1,2|3,4,5@20..60 --until 140", note: CUT },
    },
    Entry {
        name: "raft",
        how: "A process that hears nothing from a leader for a random time-out stands for election in the next term and asks \
              all for their votes. A process gives one vote a term, and writes it down first. A majority of votes makes a \
              leader, which sends heartbeats. Two majorities share a process, so a term has at most one leader. Before it \
              disturbs anybody, a candidate asks who would vote for it.",
        figure: "raft --nodes 3 --initiator 3 --until 10",
        figure_note: "3 asks who would vote for it, asks for votes, and is heard to lead.",
        breaks: Check {
            words: "raft --forget-votes on --restarts 1 --pre-vote off --check-quorum off",
            note: "Nothing within its assumptions. A deliberate bug does: a process that forgets its vote in a crash can \
                   vote twice in one term, and two lead in it. The model checker finds the shortest schedule.",
        },
    },
    Entry {
        name: "grid-quorum",
        how: "Processes stand in a grid. A candidate needs the locks of a row and of a column; any two such sets share a \
              process, so two candidates cannot have all their locks at once. A process that is locked for a worse \
              candidate inquires, and the worse one relinquishes, so nobody waits for ever.",
        figure: "grid-quorum --nodes 9 --initiator 5",
        figure_note: "The grid 1 2 3 / 4 5 6 / 7 8 9. 5 asks 4 and 6, 2 and 8, and has their locks after a round trip.",
        breaks: Simulate {
            words: "grid-quorum --nodes 9 --initiator 1 --crash 1@20,5@20,9@20 --recover 5@200 --detector ideal:2",
            note: "Three dead processes of nine are enough if they are a diagonal, which is in all rows and columns: nobody \
                   can be elected until one of them is back.",
        },
    },
    Entry {
        name: "quorum-lease",
        how: "A few processes are voters. A candidate asks them to promise a fencing token, notes its clock, and asks them for \
              a lease with this token. A majority makes it leader from then on, until the lease ends by its own clock, \
              which is earlier than at the voters by the bound on the drift of clocks. It renews well before. Tokens \
              increase, so that a resource can refuse the requests of an old leader.",
        figure: "quorum-lease --nodes 4 --voters 3 --initiator 4 --until 15",
        figure_note: "4 asks three voters for a promise and then for a lease. It leads after four delays, and renews at 12.",
        breaks: Simulate {
            words: "quorum-lease --voters 3 --changes on --ttl 10 --renew 3 --ids 3,1,4,2 --initiator 3,1,2 \
                    --crash 4@36.6 --recover 4@43.7,4@93.5 --pause 4@64.6..91,1@91.7..127.4 --crash-midway 4:5@83.8 \
                    --heal-all-at 300 --latency exp:0.3 --drift 40% --until 320 --limit 162000 --seed 56",
            note: "Neither the torture nor the model checker finds anything within its assumptions. Here clocks drift by 40%, \
                   far beyond the bound, and two processes lead at once. `suffrage-lab torture quorum-lease --drift 40%` \
                   found and shrank this run.",
        },
    },
    Entry {
        name: "gupta",
        how: "For thousands of processes. Each decides by a hash of its id and the round whether it may relay, so that about K \
              do, without a message. These exchange their preferred leaders and multicast the result. If nobody hears a \
              result, the next round has more relays. Success has a known probability.",
        figure: "gupta --nodes 6 --first-k 3 --crash 2@4 --seed 106",
        figure_note: "Three members enter the relay phase, and one of them fails. The other two exchange preferences, and each \
                      multicasts the leader.",
        breaks: Simulate {
            words: "gupta --nodes 60 --first-k 1 --growth 8 --seed 4",
            note: "With K = 1 it is likely that nobody may relay. Nobody hears a final choice, and the election needs \
                   another round. The algorithm promises success only with a probability.",
        },
    },
    Entry {
        name: "randomized",
        how: "Contenders throw balls at random mediators. A contender goes on to the next round if it is the first at all of \
              its mediators; each round has more balls, and fewer contenders. The last ones ask enough mediators that two \
              of them would meet at one, with high probability.",
        figure: "randomized --nodes 8 --initiator all --mode sync --rounds figure1 --seed 35661",
        figure_note: "Of eight contenders with one ball each, 2, 4, 5 and 6 proceed; with two balls each, 5 and 6; with five, \
                      6 is the leader. With this seed every ball falls as in the paper.",
        breaks: Simulate {
            words: "randomized --nodes 30 --initiator all --loss 0.3 --until 200 --seed 1",
            note: "Three of ten messages are lost. Contenders wait for answers that do not come, and processes do not learn \
                   who won.",
        },
    },
    Entry {
        name: "probabilistic-quorum",
        how: "Each contender asks a random set of processes that is large enough to meet every other such set with high \
              probability. The processes answer one contender and refuse the others. There is no first phase that thins \
              out the contenders, so it needs many more messages than the randomized algorithm.",
        figure: "probabilistic-quorum --nodes 8 --initiator 2,5",
        figure_note: "2 and 5 contend. Their sets meet, and one of them wins.",
        breaks: Simulate {
            words: "probabilistic-quorum --nodes 30 --initiator all --loss 0.3 --until 200 --seed 1",
            note: "Three of ten messages are lost. A contender that misses an answer does not win, and processes do not \
                   learn who won.",
        },
    },
];
