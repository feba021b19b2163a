//! Implementations of [`Message`](crate::Message) and [`Timer`](crate::Timer) from a list of variants, and
//! forwarding methods of [`Effects`](crate::Effects).

/// Implements [`Message`](crate::Message) for an enum from the list of its variants.
///
/// Each entry is a kind of message, in the order of `KINDS`. A variant that is missing from the list, or listed
/// twice, is a compile error.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use suffrage_core::{Kind, Message as _};
///
/// #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
/// enum Message {
///     Election,
///     PotentialWinner { number: u64 },
///     Heartbeat,
///     NumberedHeartbeat(u64),
/// }
///
/// suffrage_core::message_kinds!(Message {
///     Election,
///     // The source's name, where it is not the variant's.
///     PotentialWinner as "POTW",
///     // Not counted as a message of the protocol; with a pattern that covers two variants.
///     Heartbeat: uncounted = Message::Heartbeat | Message::NumberedHeartbeat(_),
/// });
///
/// assert_eq!(Message::KINDS, [Kind::new("Election"), Kind::new("POTW"), Kind::uncounted("Heartbeat")]);
/// assert_eq!(Message::PotentialWinner { number: 7 }.kind(), 1);
/// assert_eq!(Message::NumberedHeartbeat(7).kind(), 2);
/// ```
///
/// The other forms:
///
/// - `message_kinds!(Message)`: all messages are of one kind with the name of the type, for a struct for example.
/// - `message_kinds!(Message.body { … })`: the patterns match a field of the message. Every entry then has a
///   pattern.
/// - `message_kinds!(<T: Token> Message<T> { … })`: the type has a parameter. A name may then be a constant in
///   parentheses, such as `(T::NAME)`.
///
/// A message without a kind does not compile:
///
/// ```compile_fail,E0004
/// # use serde::{Deserialize, Serialize};
/// #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
/// enum Message {
///     Election,
///     Answer,
/// }
///
/// suffrage_core::message_kinds!(Message { Election });
/// ```
#[macro_export]
macro_rules! message_kinds {
    ($message:ident) => {
        $crate::message_kinds!($message { $message = _ });
    };
    (
        $(<$parameter:ident: $bound:path>)? $message:ident $(<$argument:ident>)? $(.$field:ident)* {
            $($kind:ident $(as $name:tt)? $(: $counting:ident)? $(= $pattern:pat)?),+ $(,)?
        }
    ) => {
        impl$(<$parameter: $bound>)? $crate::Message for $message$(<$argument>)? {
            const KINDS: &'static [$crate::Kind] =
                &[$($crate::message_kinds!(@kind $kind, $($name)?; $($counting)?)),+];

            #[inline]
            fn kind(&self) -> usize {
                enum KindIndex {
                    $($kind),+
                }
                match &self$(.$field)* {
                    $($crate::message_kinds!(@pattern $kind, $($pattern)?) => KindIndex::$kind as usize),+
                }
            }
        }
    };
    (@kind $kind:ident, ; $($counting:ident)?) => {
        $crate::message_kinds!(@kind $kind, (stringify!($kind)); $($counting)?)
    };
    (@kind $kind:ident, $name:tt; ) => {
        $crate::Kind::new($name)
    };
    (@kind $kind:ident, $name:tt; uncounted) => {
        $crate::Kind::uncounted($name)
    };
    (@pattern $kind:ident, ) => {
        Self::$kind { .. }
    };
    (@pattern $kind:ident, $pattern:pat) => {
        $pattern
    };
}

/// Implements [`Timer`](crate::Timer) for an enum from the list of its variants.
///
/// Each entry is a timer. Its index is its position in the list. A variant that is missing from the list, or listed
/// twice, is a compile error.
///
/// ```
/// use suffrage_core::Timer as _;
///
/// #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
/// enum Timer {
///     Answer,
///     Heartbeat(u64),
/// }
///
/// suffrage_core::timer_indices!(Timer { Answer, Heartbeat });
///
/// assert_eq!(Timer::COUNT, 2);
/// assert_eq!(Timer::Heartbeat(7).index(), 1);
/// ```
///
/// `timer_indices!(Timer)`, without a list, gives all values of the type one index: at most one of them is pending.
///
/// A timer without an index does not compile:
///
/// ```compile_fail,E0004
/// #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
/// enum Timer {
///     Answer,
///     Heartbeat,
/// }
///
/// suffrage_core::timer_indices!(Timer { Answer });
/// ```
#[macro_export]
macro_rules! timer_indices {
    ($timer:ident) => {
        impl $crate::Timer for $timer {
            const COUNT: usize = 1;

            #[inline]
            fn index(self) -> usize {
                0
            }
        }
    };
    ($timer:ident { $($variant:ident),+ $(,)? }) => {
        impl $crate::Timer for $timer {
            const COUNT: usize = [$(stringify!($variant)),+].len();

            #[inline]
            fn index(self) -> usize {
                enum TimerIndex {
                    $($variant),+
                }
                match self {
                    $(Self::$variant { .. } => TimerIndex::$variant as usize),+
                }
            }
        }
    };
}

/// Implements methods of [`Effects`](crate::Effects) that forward the effect unchanged to a field, for a layer around a
/// process. The field has the methods of [`Context`](crate::Context), or is a `dyn Effects`.
///
/// An effect that carries a value of the process names the type of the value. Messages are converted with
/// [`Into`](std::convert::Into):
///
/// ```
/// use suffrage_core::{Announcement, Context, Effects, NodeId, Process, Span, Time};
///
/// /// Forwards all effects of a process except its announcements.
/// struct Quiet<'e, 'v, P: Process> {
///     cx: &'e mut Context<'v, P>,
/// }
///
/// impl<P: Process> Effects<P> for Quiet<'_, '_, P> {
///     suffrage_core::forward_effects!(cx: rng, send(P::Message), multicast(P::Message), set_timer(P::Timer));
///     suffrage_core::forward_effects!(cx: cancel_timer(P::Timer), save(P::Saved), begin_save(P::Saved));
///     suffrage_core::forward_effects!(cx: suspect, restore);
///     fn announce(&mut self, _: Announcement) {}
///     fn lead_until(&mut self, _: Time) {}
/// }
/// ```
#[macro_export]
macro_rules! forward_effects {
    ($field:tt: $($effect:ident $(($value:ty))?),+) => {
        $($crate::forward_effects!(@$effect $field $($value)?);)+
    };
    (@rng $field:tt) => {
        fn rng(&mut self) -> &mut $crate::Rng {
            self.$field.rng()
        }
    };
    (@send $field:tt $message:ty) => {
        fn send(&mut self, to: $crate::NodeId, message: $message) {
            self.$field.send(to, message.into());
        }
    };
    (@multicast $field:tt $message:ty) => {
        fn multicast(&mut self, message: $message) {
            self.$field.multicast(message.into());
        }
    };
    (@set_timer $field:tt $timer:ty) => {
        fn set_timer(&mut self, timer: $timer, after: $crate::Span) {
            self.$field.set_timer(timer, after);
        }
    };
    (@cancel_timer $field:tt $timer:ty) => {
        fn cancel_timer(&mut self, timer: $timer) {
            self.$field.cancel_timer(timer);
        }
    };
    (@save $field:tt $saved:ty) => {
        fn save(&mut self, state: $saved) {
            self.$field.save(state);
        }
    };
    (@begin_save $field:tt $saved:ty) => {
        fn begin_save(&mut self, state: $saved) -> bool {
            self.$field.begin_save(state)
        }
    };
    (@announce $field:tt) => {
        fn announce(&mut self, announcement: $crate::Announcement) {
            self.$field.announce(announcement);
        }
    };
    (@lead_until $field:tt) => {
        fn lead_until(&mut self, end: $crate::Time) {
            self.$field.lead_until(end);
        }
    };
    (@announce_in $field:tt) => {
        fn announce_in(&mut self, election: usize, announcement: $crate::Announcement) {
            self.$field.announce_in(election, announcement);
        }
    };
    (@lead_until_in $field:tt) => {
        fn lead_until_in(&mut self, election: usize, end: $crate::Time) {
            self.$field.lead_until_in(election, end);
        }
    };
    (@suspect $field:tt) => {
        fn suspect(&mut self, peer: $crate::NodeId) {
            self.$field.suspect(peer);
        }
    };
    (@restore $field:tt) => {
        fn restore(&mut self, peer: $crate::NodeId) {
            self.$field.restore(peer);
        }
    };
}
