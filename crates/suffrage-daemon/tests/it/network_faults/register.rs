//! Two registers on a host of their own, and the work of leaders.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use suffrage::{Fenced, StaleToken};
use suffrage_testbed::Host;

use crate::network_faults::history::{Deed, Event};

/// The port of the registers.
pub(crate) const PORT: u16 = 7000;

/// The work of a leader: counts in both registers, and logs acknowledged writes. A leader that is refused tries the other
/// register, and ends. `SUFFRAGE_TOKEN` and `SUFFRAGE_LEADER` are from `suffrage run`.
pub(crate) const WRITER: &str = r#"
echo "start $SUFFRAGE_TOKEN $SUFFRAGE_LEADER $$" >>"$NOTES"
exec 3<>"/dev/tcp/$REGISTER"
ask() { echo "$*" >&3; read -r -t 10 answer number <&3 || exit 1; }
for register in fenced trusting; do
    ask "$register begin $SUFFRAGE_TOKEN $SUFFRAGE_LEADER"
    [ "$answer" = done ] || exit 1
    declare "$register=$number"
done
while :; do
    for register in fenced trusting; do
        next=$((${!register} + 1))
        ask "$register write $SUFFRAGE_TOKEN $SUFFRAGE_LEADER $next"
        [ "$answer" = done ] || { refused=1; continue; }
        declare "$register=$next"
        echo "$register $SUFFRAGE_TOKEN $SUFFRAGE_LEADER $next" >>"$NOTES"
    done
    [ -z "$refused" ] || exit 1
    sleep 0.02
done
"#;

/// The value of a register and its history.
#[derive(Debug, Default)]
struct Held {
    number: u64,
    history: Vec<Event>,
}

impl Held {
    /// Executes a request, and returns the number.
    fn apply(&mut self, event: Event) -> u64 {
        if let Deed::Write(number) = event.deed {
            self.number = number;
        }
        self.history.push(event);
        self.number
    }
}

#[derive(Debug, Default)]
struct Both {
    fenced: Fenced<Held>,
    /// The refused requests, with the number of requests accepted before.
    refused: Vec<(usize, Event)>,
    trusting: Held,
}

/// A register with the fence of the library, and one without a fence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registers(Arc<Mutex<Both>>);

impl Registers {
    /// Serves the registers on this host, until the process ends.
    pub(crate) fn serve(host: &Host) -> Registers {
        let address = SocketAddr::from((host.address(), PORT));
        let listener = host.enter(|| TcpListener::bind(address)).unwrap();
        let registers = Registers::default();
        let served = registers.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let registers = served.clone();
                thread::spawn(move || registers.answer(stream));
            }
        });
        registers
    }

    /// Serves a connection until it is closed.
    fn answer(&self, stream: TcpStream) {
        _ = stream.set_nodelay(true);
        let Ok(mut writer) = stream.try_clone() else { return };
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // A killed writer may leave an incomplete line.
            let Some((register, event)) = parse(&line) else { return };
            let answer = match register {
                "fenced" => self.ask_fenced(event),
                _ => Ok(self.both().trusting.apply(event)),
            };
            let answer = match answer {
                Ok(number) => format!("done {number}\n"),
                Err(stale) => format!("stale {}\n", stale.greatest),
            };
            if writer.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn ask_fenced(&self, event: Event) -> Result<u64, StaleToken> {
        let mut both = self.both();
        let answer = both.fenced.update(event.token, |held| held.apply(event));
        if answer.is_err() {
            let place = both.fenced.read(|held| held.history.len());
            both.refused.push((place, Event { taken: false, ..event }));
        }
        answer
    }

    /// The history of the register with a fence.
    pub(crate) fn fenced(&self) -> Vec<Event> {
        let both = self.both();
        let mut history = both.fenced.read(|held| held.history.clone());
        // From the end, so that earlier positions do not change.
        for (place, event) in both.refused.iter().rev() {
            history.insert(*place, *event);
        }
        history
    }

    /// The history of the register without a fence.
    pub(crate) fn trusting(&self) -> Vec<Event> {
        self.both().trusting.history.clone()
    }

    fn both(&self) -> MutexGuard<'_, Both> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line like `fenced write 7 11 42`: token 7, writer 11.
fn parse(line: &str) -> Option<(&str, Event)> {
    let mut words = line.split(' ');
    let register = words.next().filter(|register| ["fenced", "trusting"].contains(register))?;
    let deed = words.next()?;
    let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    let (token, writer, deed) = match (deed, &numbers[..]) {
        ("begin", &[token, writer]) => (token, writer, Deed::Begin),
        ("write", &[token, writer, number]) => (token, writer, Deed::Write(number)),
        _ => return None,
    };
    Some((register, Event { token, writer, deed, taken: true }))
}

mod tests {
    use super::*;

    #[test]
    fn the_history_has_refused_writes_in_order() {
        let registers = Registers::default();
        let ask = |line: &str| {
            let (register, event) = parse(line).unwrap();
            assert_eq!(register, "fenced");
            registers.ask_fenced(event)
        };
        assert_eq!(ask("fenced begin 3 1"), Ok(0));
        assert_eq!(ask("fenced write 3 1 1"), Ok(1));
        assert_eq!(ask("fenced begin 5 2"), Ok(1));
        assert_eq!(ask("fenced write 3 1 2"), Err(StaleToken { token: 3, greatest: 5 }));
        assert_eq!(ask("fenced begin 4 9"), Err(StaleToken { token: 4, greatest: 5 }));
        assert_eq!(ask("fenced write 5 2 2"), Ok(2));
        let taken: Vec<(u64, bool)> =
            registers.fenced().iter().map(|event| (event.token, event.taken)).collect();
        assert_eq!(taken, [(3, true), (3, true), (5, true), (3, false), (4, false), (5, true)]);
        assert!(parse("fenced write 3 1").is_none() && parse("other begin 3 1").is_none());
    }
}
