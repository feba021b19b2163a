//! The event queue: events in order of time, and first-in first-out at equal times.
//!
//! A calendar queue (Brown 1988): the current *year* is divided into buckets of equal width. An event is appended to
//! its bucket, and a bucket is sorted when it is opened. Later years are unsorted lists, divided into buckets when they
//! begin. The width adapts to the load, so that a bucket holds dozens of events, or thousands at most, with a million
//! busy processes as well as with one message in flight. An event is written two or three times and compared a few
//! times. Nothing is allocated once the buffers have grown.
//!
//! Two invariants carry the order. *Nothing is scheduled in the past.* *Events of equal time stand
//! in the order they were scheduled*: they always share a bucket or a year, buckets and years only grow at the
//! end, and a later year is not divided before it begins.

use std::collections::BTreeMap;

/// Buckets in a year.
const BUCKETS: usize = 4096;
const BUCKET_BITS: u32 = BUCKETS.trailing_zeros();
const WORDS: usize = BUCKETS / 64;
/// The order of the open bucket is kept in single words: the offset of an event's time within the
/// bucket above, its index below.
const INDEX_BITS: u32 = 28;
const INDEX: u64 = (1 << INDEX_BITS) - 1;
const MAX_WIDTH: u32 = 64 - INDEX_BITS;
/// The number of events that a year should hold, and the range that does not change the width. Dozens of events in a
/// bucket cost about as much as a thousand: few events because buckets are opened, many because they are sorted.
const EVENTS_PER_YEAR: u64 = 64 * BUCKETS as u64;
const TOO_FEW: u64 = EVENTS_PER_YEAR / 4;
const TOO_MANY: u64 = 8192 * BUCKETS as u64;
/// The number of shifts per waiting event, by insertions into the open bucket, after which a rebuild of all buckets is
/// cheaper.
const MAX_SHIFTS_PER_EVENT: u64 = 8;
/// The size of the open bucket from which on popped events are removed, if they are more than half.
const MAX_OPEN_EVENTS: usize = 1 << 16;

/// A queue of events by time.
#[derive(Debug)]
pub struct Queue<E> {
    /// Buckets are `2^width` ticks wide.
    width: u32,
    year: u64,
    buckets: Vec<Vec<Event<E>>>,
    /// Buffers of drained buckets, for reuse. The last one is still in the cache.
    spare: Vec<Vec<Event<E>>>,
    /// A bit for each bucket that is not empty, and a bit for each word of `filled` that is not zero.
    filled: [u64; WORDS],
    filled_words: u64,

    /// The number of buckets since time zero that have been opened. Later buckets take unsorted events.
    opened: u64,
    /// The start of the last opened bucket.
    start: u64,
    /// The events of the open bucket in order of arrival. The payload of a popped event is taken.
    events: Vec<Event<E>>,
    /// The sorted keys of these events, and the number of popped events.
    order: Vec<u64>,
    popped: usize,

    next_year: Vec<Event<E>>,
    /// The index into `years` of each later year. A map of plain numbers is compiled once for all queues.
    later_years: BTreeMap<u64, usize>,
    years: Vec<Vec<Event<E>>>,
    /// The free indices of `years`.
    free_years: Vec<usize>,
    len: usize,
    /// The events popped this year, and the events pushed to the year after next or later.
    popped_this_year: u64,
    pushed_far: u64,
    /// The number of keys that insertions into the open bucket have shifted this year.
    shifted: u64,
    /// The time of the last popped event.
    now: u64,
}

#[derive(Debug)]
struct Event<E> {
    time: u64,
    payload: Option<E>,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue {
            width: 10,
            year: 0,
            buckets: std::iter::repeat_with(Vec::new).take(BUCKETS).collect(),
            spare: Vec::new(),
            filled: [0; WORDS],
            filled_words: 0,
            opened: 0,
            start: 0,
            events: Vec::new(),
            order: Vec::new(),
            popped: 0,
            next_year: Vec::new(),
            later_years: BTreeMap::new(),
            years: Vec::new(),
            free_years: Vec::new(),
            len: 0,
            popped_this_year: 0,
            pushed_far: 0,
            shifted: 0,
            now: 0,
        }
    }
}

impl<E> Queue<E> {
    /// The number of events in the queue.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the queue has no events.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Schedules an event. A time before that of the last popped event is raised to it.
    #[inline(always)] // Otherwise the event is written to the stack first, and every write stalls.
    pub fn push(&mut self, time: u64, payload: E) {
        let time = time.max(self.now);
        let event = Event { time, payload: Some(payload) };
        self.len += 1;
        let bucket = time >> self.width;
        if bucket >= self.opened {
            if bucket >> BUCKET_BITS == self.year { self.fill(bucket, event) } else { self.push_later(event) }
        } else if time >= self.start
            && self.events.len() < MAX_OPEN_EVENTS
            && self.order.last().is_none_or(|&last| last < self.key(time))
        {
            // The usual case in the open bucket: later than everything in it.
            self.order.push(self.key(time));
            self.events.push(event);
        } else {
            self.insert_in_order(event);
        }
    }

    /// The key of an event that is added to the open bucket now.
    #[inline(always)]
    fn key(&self, time: u64) -> u64 {
        ((time - self.start) << INDEX_BITS) | self.events.len() as u64
    }

    /// Appends an event to a bucket of this year that is not open yet.
    #[inline(always)]
    fn fill(&mut self, bucket: u64, event: Event<E>) {
        let bucket = bucket as usize % BUCKETS;
        let events = &mut self.buckets[bucket];
        if events.capacity() == 0 {
            *events = self.spare.pop().unwrap_or_default();
        }
        events.push(event);
        self.filled[bucket / 64] |= 1 << (bucket % 64);
        self.filled_words |= 1 << (bucket / 64);
    }

    /// Inserts an event into the open bucket before other events, or into a bucket before the open one.
    fn insert_in_order(&mut self, event: Event<E>) {
        if event.time < self.start {
            // The caller popped with a limit, and then scheduled an earlier event.
            self.rebuild(self.width, self.now);
            return self.place(event);
        }
        // A bucket that is too wide for the load since its opening would grow without end.
        if self.events.len() >= MAX_OPEN_EVENTS && self.popped > self.events.len() / 2 {
            self.rebuild(self.width.saturating_sub(6), self.now);
            return self.place(event);
        }
        assert!((self.events.len() as u64) < INDEX, "more than 2^{INDEX_BITS} events at about the same time");
        let key = self.key(event.time);
        let index = self.popped + self.order[self.popped..].partition_point(|&other| other < key);
        self.shifted += (self.order.len() - index) as u64;
        if self.shifted > MAX_SHIFTS_PER_EVENT * (self.len + BUCKETS) as u64 {
            self.rebuild(self.width.saturating_sub(6), self.now);
            return self.place(event);
        }
        self.order.insert(index, key);
        self.events.push(event);
    }

    /// Appends an event to a bucket that is not open yet, or to a later year.
    #[inline]
    fn place(&mut self, event: Event<E>) {
        let bucket = event.time >> self.width;
        if bucket >> BUCKET_BITS == self.year { self.fill(bucket, event) } else { self.push_later(event) }
    }

    /// Appends an event to a later year.
    #[inline(always)]
    fn push_later(&mut self, event: Event<E>) {
        let year = event.time >> self.width >> BUCKET_BITS;
        if year == self.year + 1 {
            self.next_year.push(event);
        } else {
            self.push_far(year, event);
        }
    }

    /// Appends an event to the year after next or later.
    #[inline(never)]
    fn push_far(&mut self, year: u64, event: Event<E>) {
        let next = self.free_years.last().copied().unwrap_or(self.years.len());
        let index = *self.later_years.entry(year).or_insert(next);
        if index == next {
            self.free_years.pop();
            if index == self.years.len() {
                self.years.push(Vec::new());
            }
        }
        self.years[index].push(event);
        self.pushed_far += 1;
    }

    /// Takes the events of a later year, and frees its index.
    fn take_year(&mut self, index: usize) -> Vec<Event<E>> {
        self.free_years.push(index);
        std::mem::take(&mut self.years[index])
    }

    /// The next event, if it happens no later than `limit`.
    pub fn pop(&mut self, limit: u64) -> Option<(u64, E)> {
        if self.popped == self.order.len() {
            self.open();
        }
        self.pop_open(limit)
    }

    /// The next event of the open bucket, if it happens no later than `limit`. If none, other buckets may still have
    /// events.
    #[inline]
    pub(crate) fn pop_open(&mut self, limit: u64) -> Option<(u64, E)> {
        let key = *self.order.get(self.popped)?;
        let event = &mut self.events[(key & INDEX) as usize];
        if event.time > limit {
            return None;
        }
        let payload = event.payload.take().expect("an event is popped once");
        self.now = event.time;
        self.popped += 1;
        self.len -= 1;
        self.popped_this_year += 1;
        if self.popped == self.order.len() {
            self.events.clear();
            self.order.clear();
            self.popped = 0;
        }
        Some((self.now, payload))
    }

    /// The events in the open bucket.
    pub(crate) fn opened(&self) -> impl Iterator<Item = &E> {
        self.events.iter().filter_map(|event| event.payload.as_ref())
    }

    /// Opens the bucket of the next event, unless the open bucket still has events or the queue is empty.
    pub(crate) fn open(&mut self) {
        if self.popped < self.order.len() || self.len == 0 {
            return;
        }
        if self.filled_words == 0 {
            self.fit_width();
        }
        if self.filled_words == 0 {
            self.begin_next_year();
        }
        let word = self.filled_words.trailing_zeros() as usize;
        let bucket = word * 64 + self.filled[word].trailing_zeros() as usize;
        self.filled[word] &= self.filled[word] - 1;
        if self.filled[word] == 0 {
            self.filled_words &= self.filled_words - 1;
        }
        let open = (self.year << BUCKET_BITS) + bucket as u64;
        self.opened = open + 1;
        self.start = open << self.width;
        let drained = std::mem::replace(&mut self.events, std::mem::take(&mut self.buckets[bucket]));
        if drained.capacity() > 0 {
            self.spare.push(drained);
        }
        assert!(self.events.len() as u64 <= INDEX, "more than 2^{INDEX_BITS} events at about the same time");
        let key = |(index, event): (u64, &Event<E>)| ((event.time - self.start) << INDEX_BITS) | index;
        self.order.extend((0..).zip(&self.events).map(key));
        self.order.sort_unstable();
    }

    /// Divides the next year that has events into buckets. The current year has none left.
    fn begin_next_year(&mut self) {
        let mut events = std::mem::take(&mut self.next_year);
        self.year += 1;
        if events.is_empty() {
            let (year, index) = self.later_years.pop_first().expect("the events are somewhere");
            (self.year, events) = (year, self.take_year(index));
        }
        let next = self.later_years.remove(&(self.year + 1));
        self.next_year = next.map_or(Vec::new(), |index| self.take_year(index));
        for event in events.drain(..) {
            self.place(event);
        }
        if self.next_year.capacity() == 0 {
            self.next_year = events;
        }
    }

    /// Sets the width that would have suited the year that is over.
    fn fit_width(&mut self) {
        let popped_this_year = self.popped_this_year.max(1);
        let width = match popped_this_year {
            ..TOO_FEW => (self.width + (EVENTS_PER_YEAR / popped_this_year).ilog2()).min(MAX_WIDTH),
            TOO_MANY.. => self.width.saturating_sub((popped_this_year / TOO_MANY).ilog2() + 1),
            // Most events were written twice. A longer year avoids that.
            _ if self.pushed_far > popped_this_year / 2 && popped_this_year < TOO_MANY / 8 => {
                (self.width + 2).min(MAX_WIDTH)
            }
            _ => self.width,
        };
        (self.popped_this_year, self.pushed_far, self.shifted) = (0, 0, 0);
        if width != self.width {
            self.rebuild(width, self.now);
        }
    }

    /// Distributes all events to buckets of another width, beginning at `from`.
    fn rebuild(&mut self, width: u32, from: u64) {
        // In order of time, so that events of equal time stay in the order they came.
        let mut pending = std::mem::take(&mut self.events);
        pending.retain(|event| event.payload.is_some());
        for bucket in &mut self.buckets {
            pending.append(bucket);
        }
        pending.append(&mut self.next_year);
        for (_, index) in std::mem::take(&mut self.later_years) {
            pending.append(&mut self.take_year(index));
        }
        self.order.clear();
        self.popped = 0;
        self.filled = [0; WORDS];
        self.filled_words = 0;
        self.width = width;
        self.opened = from >> width;
        self.year = self.opened >> BUCKET_BITS;
        for event in pending {
            self.place(event);
        }
        (self.popped_this_year, self.pushed_far, self.shifted) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::Rng;

    /// Compares the queue with a list that is kept sorted by time, stable.
    fn agrees_with_a_sorted_list(seed: u64, delay: impl Fn(&mut Rng, u64) -> u64) {
        let mut rng = Rng::new(seed);
        let (mut queue, mut list) = (Queue::default(), Vec::<(u64, u64)>::new());
        let mut now = 0;
        for number in 0..30_000 {
            if rng.chance(0.52) || list.is_empty() {
                let time = now + delay(&mut rng, number);
                queue.push(time, number);
                let index = list.partition_point(|&(other, _)| other <= time);
                list.insert(index, (time, number));
            } else {
                let limit = if rng.chance(0.1) { now + rng.below(1000) } else { u64::MAX };
                let expected = (list[0].0 <= limit).then(|| list.remove(0));
                let popped = queue.pop(limit);
                assert_eq!(popped, expected, "seed {seed}, step {number}");
                now = popped.map_or(now, |(time, _)| time);
            }
            assert_eq!(queue.len(), list.len());
        }
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop(u64::MAX)).collect();
        assert_eq!(rest, list, "seed {seed}");
        assert!(queue.is_empty());
    }

    #[test]
    fn order_is_by_time_then_first_in_first_out() {
        for seed in 0..5 {
            agrees_with_a_sorted_list(seed, |_, _| 1_000_000);
            agrees_with_a_sorted_list(seed, |rng, _| rng.below(3));
            agrees_with_a_sorted_list(seed, |rng, _| rng.below(1_000_000));
            agrees_with_a_sorted_list(seed, |rng, _| rng.below(4) * 500_000);
            agrees_with_a_sorted_list(seed, |rng, _| 1 << rng.below(50));
        }
    }

    #[test]
    fn the_width_follows_a_load_that_changes() {
        for seed in 0..5 {
            // Sparse, then crowded, then sparse.
            agrees_with_a_sorted_list(seed, |rng, number| match number / 10_000 {
                1 => rng.below(5_000),
                _ => rng.below(1 << 40),
            });
        }
    }

    /// In buckets wider than the keys can represent, events would be popped in the wrong order.
    #[test]
    fn the_width_is_limited_even_if_all_events_are_far_ahead() {
        let (mut rng, mut queue, mut now) = (Rng::new(1), Queue::default(), 0);
        for _ in 0..20 {
            queue.push(now + (1 << 49), ());
            (now, ()) = queue.pop(u64::MAX).unwrap();
        }
        (0..20_000).for_each(|number| queue.push(now + (number << 32), ()));
        for _ in 0..60_000 {
            let (time, ()) = queue.pop(u64::MAX).unwrap();
            assert!(time >= now, "{time} after {now}");
            now = time;
            queue.push(now + (1 << 51) + rng.below(1 << 49), ());
        }
    }

    /// The buckets grow wide under a low load, and then one of them gets a high load.
    #[test]
    fn a_bucket_does_not_keep_popped_events() {
        let mut queue = Queue::default();
        for number in 0..100 {
            queue.push(number << 40, 0);
            queue.pop(u64::MAX);
        }
        assert_eq!(queue.width, MAX_WIDTH);
        let start = 100 << 40;
        queue.push(start, 0);
        queue.push(start + 5, 0);
        for number in 1..20 * MAX_OPEN_EVENTS as u64 {
            let (time, _) = queue.pop(u64::MAX).unwrap();
            assert_eq!(time, start + 5 * (number - 1));
            queue.push(time + 10, number);
            assert!(queue.events.len() <= MAX_OPEN_EVENTS, "{number}");
        }
        assert!(queue.width < MAX_WIDTH);
    }

    #[test]
    fn an_event_before_the_open_bucket_is_popped_in_order() {
        let mut queue = Queue::default();
        queue.push(1 << 45, 'c');
        assert_eq!(queue.pop(10), None);
        queue.push(20, 'a');
        queue.push(1 << 45, 'd');
        queue.push(30, 'b');
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(u64::MAX)).map(|(_, payload)| payload).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
    }
}
