//! What a group has decided about partitions, and how far that is done here.

use std::collections::BTreeMap;
use tokio::sync::watch;
use tokio::time::Instant;

/// The partitions that a group has assigned to this process, and those that are not given back yet. `R` is what the group
/// waits for: it is dropped when a partition is released.
pub(crate) struct Seats<R> {
    seats: BTreeMap<i32, Seat<R>>,
    /// How many may be taken at once.
    most: usize,
}

struct Seat<R> {
    /// Whether the group has assigned it to this process.
    wanted: watch::Sender<bool>,
    stage: Stage,
    /// Whether another process took it from here although the group had assigned it.
    fenced: bool,
    /// What the group waits for, and how long it shall wait at most.
    releases: Vec<(Instant, R)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing of it is held here.
    Free,
    Opening,
    Open,
    Closing,
}

/// A partition to open.
pub(crate) struct Wish {
    pub(crate) number: i32,
    /// Whether it is still to be opened.
    pub(crate) wanted: watch::Receiver<bool>,
    /// Whether it may be taken over from another member that does not release it. What was taken from here may not: the
    /// group knows better, and tells soon.
    pub(crate) insists: bool,
}

impl<R> Seats<R> {
    /// No partitions, of which so many may be taken at once.
    pub(crate) fn new(most: usize) -> Self {
        Self { seats: BTreeMap::new(), most }
    }

    /// The group has assigned a partition.
    pub(crate) fn assigned(&mut self, number: i32) {
        let seat = self.seats.entry(number).or_insert_with(|| Seat {
            wanted: watch::Sender::new(true),
            stage: Stage::Free,
            fenced: false,
            releases: Vec::new(),
        });
        seat.wanted.send_replace(true);
        seat.fenced = false;
    }

    /// The group takes a partition back, and waits for it until then at most. Returns whether it is open, and must be closed
    /// now.
    pub(crate) fn revoked(&mut self, number: i32, until: Instant, release: R) -> bool {
        let Some(seat) = self.seats.get_mut(&number).filter(|seat| seat.stage != Stage::Free) else {
            self.seats.remove(&number);
            return false;
        };
        seat.releases.push((until, release));
        seat.give_up()
    }

    /// The group has taken a partition back without waiting. Returns as [`Seats::revoked`].
    pub(crate) fn lost(&mut self, number: i32) -> bool {
        match self.seats.get_mut(&number) {
            Some(seat) if seat.stage != Stage::Free => seat.give_up(),
            _ => {
                self.seats.remove(&number);
                false
            }
        }
    }

    /// A partition to open now, if there is one.
    pub(crate) fn next(&mut self) -> Option<Wish> {
        let taken = self.seats.values().filter(|seat| seat.stage != Stage::Free).count();
        if taken >= self.most {
            return None;
        }
        let (number, seat) = self.seats.iter_mut().find(|(_, seat)| seat.stage == Stage::Free && seat.is_wanted())?;
        seat.stage = Stage::Opening;
        Some(Wish { number: *number, wanted: seat.wanted.subscribe(), insists: !seat.fenced })
    }

    /// A partition was opened. Returns whether it stays so. If not, it must be closed now: the group waits for it, even if
    /// it is to come back.
    pub(crate) fn opened(&mut self, number: i32) -> bool {
        let Some(seat) = self.seats.get_mut(&number) else { return false };
        let stays = seat.is_wanted() && seat.releases.is_empty();
        seat.stage = if stays { Stage::Open } else { Stage::Closing };
        stays
    }

    /// A partition that is open ends by itself, and is being closed.
    pub(crate) fn ended(&mut self, number: i32) {
        if let Some(seat) = self.seats.get_mut(&number) {
            (seat.stage, seat.fenced) = (Stage::Closing, true);
        }
    }

    /// A partition was closed, or was not opened.
    pub(crate) fn free(&mut self, number: i32) {
        if let Some(seat) = self.seats.get_mut(&number) {
            seat.stage = Stage::Free;
            seat.releases.clear();
            if !seat.is_wanted() {
                self.seats.remove(&number);
            }
        }
    }

    /// Nothing is to be opened any more.
    pub(crate) fn give_up(&mut self) {
        for seat in self.seats.values() {
            seat.wanted.send_replace(false);
        }
    }

    /// Lets the group wait for nothing any more.
    pub(crate) fn give_back(&mut self) {
        self.seats.clear();
    }

    /// Lets the group wait no longer for what takes too long. Whoever gets such a partition waits for its lock.
    pub(crate) fn let_go(&mut self, now: Instant) {
        self.seats.values_mut().for_each(|seat| seat.releases.retain(|(until, _)| *until > now));
    }

    /// Whether the group has assigned a partition to this process.
    pub(crate) fn is_wanted(&self, number: i32) -> bool {
        self.seats.get(&number).is_some_and(Seat::is_wanted)
    }

    /// How many partitions are assigned.
    pub(crate) fn wanted(&self) -> usize {
        self.seats.values().filter(|seat| seat.is_wanted()).count()
    }
}

impl<R> Seat<R> {
    fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    /// It is not wanted any more. Returns whether it is open.
    fn give_up(&mut self) -> bool {
        self.wanted.send_replace(false);
        let is_open = self.stage == Stage::Open;
        if is_open {
            self.stage = Stage::Closing;
        }
        is_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use std::time::Duration;

    const NUMBER: i32 = 3;

    /// What can happen to a partition: what the group decides, and what is done here in its own time.
    #[derive(Debug, Clone, Copy)]
    enum Happens {
        Assigned,
        Revoked,
        Lost,
        Opened,
        NotOpened,
        Ended,
        Closed,
    }

    const ALL: [Happens; 7] = [
        Happens::Assigned,
        Happens::Revoked,
        Happens::Lost,
        Happens::Opened,
        Happens::NotOpened,
        Happens::Ended,
        Happens::Closed,
    ];

    /// A partition as the loader sees it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Held {
        No,
        Opening,
        Open,
        Closing,
    }

    /// The order of events, what holds the partition here, and whether the group has assigned it.
    struct Scene {
        seats: Seats<Rc<()>>,
        held: Held,
        assigned: bool,
        /// What the group waits for.
        awaited: Vec<Rc<()>>,
        until: Instant,
    }

    impl Scene {
        fn new() -> Self {
            let until = Instant::now() + Duration::from_secs(60);
            Self { seats: Seats::new(1), held: Held::No, assigned: false, awaited: Vec::new(), until }
        }

        /// Lets something happen. `false` if it cannot happen now.
        fn play(&mut self, event: Happens) -> bool {
            let closes = match (event, self.held) {
                (Happens::Assigned, _) if !self.assigned => {
                    self.assigned = true;
                    self.seats.assigned(NUMBER);
                    false
                }
                (Happens::Revoked, _) if self.assigned => {
                    self.assigned = false;
                    let release = Rc::new(());
                    self.awaited.push(Rc::clone(&release));
                    self.seats.revoked(NUMBER, self.until, release)
                }
                (Happens::Lost, _) if self.assigned => {
                    self.assigned = false;
                    self.seats.lost(NUMBER)
                }
                (Happens::Opened, Held::Opening) => {
                    self.held = Held::Open;
                    !self.seats.opened(NUMBER)
                }
                (Happens::Ended, Held::Open) => {
                    self.seats.ended(NUMBER);
                    self.held = Held::Closing;
                    false
                }
                (Happens::NotOpened, Held::Opening) | (Happens::Closed, Held::Closing) => {
                    self.seats.free(NUMBER);
                    self.held = Held::No;
                    false
                }
                _ => return false,
            };
            if closes {
                assert_eq!(self.held, Held::Open, "only what is open is closed");
                self.held = Held::Closing;
            }
            if let Some(Wish { number, wanted, .. }) = self.seats.next() {
                assert_eq!((number, self.held), (NUMBER, Held::No), "it is opened once at a time");
                assert!(*wanted.borrow() && self.assigned, "only what is assigned is opened");
                self.held = Held::Opening;
            }
            self.check();
            true
        }

        fn check(&self) {
            assert_eq!(self.seats.is_wanted(NUMBER), self.assigned);
            assert!(self.held != Held::No || !self.assigned, "what is assigned is opened at once");
            assert!(self.held != Held::Open || self.assigned, "what is not assigned is not read");
            let is_waited_for = self.awaited.iter().any(|release| Rc::strong_count(release) > 1);
            assert!(!is_waited_for || self.held != Held::No, "the group does not wait for what is released");
            assert!(!is_waited_for || self.held != Held::Open, "what the group waits for is not read");
        }
    }

    #[test]
    fn whatever_the_order_a_partition_is_held_once_and_released_before_the_group_goes_on() {
        let mut orders = vec![Vec::new()];
        let mut played = 0;
        for _ in 0..7 {
            let mut longer = Vec::new();
            for order in &orders {
                for event in ALL {
                    let mut scene = Scene::new();
                    let order: Vec<Happens> = [order.as_slice(), &[event]].concat();
                    if order.iter().all(|event| scene.play(*event)) {
                        played += 1;
                        // Everything that is under way comes to its end.
                        let ways = [Happens::Opened, Happens::Closed];
                        while !matches!(scene.held, Held::No | Held::Open) {
                            assert!(ways.into_iter().any(|event| scene.play(event)), "{order:?}");
                        }
                        assert_eq!(scene.held == Held::Open, scene.assigned, "{order:?}");
                        assert!(scene.awaited.iter().all(|release| Rc::strong_count(release) == 1), "{order:?}");
                        longer.push(order);
                    }
                }
            }
            orders = longer;
        }
        assert!(played > 1_000, "{played}");
    }

    #[test]
    fn a_revoked_partition_is_waited_for_until_it_is_closed_or_takes_too_long() {
        let (mut seats, now) = (Seats::new(9), Instant::now());
        let release = Rc::new(());
        let waits = |release: &Rc<()>| Rc::strong_count(release) > 1;
        seats.assigned(NUMBER);
        assert!(!seats.revoked(NUMBER, now, Rc::clone(&release)) && !waits(&release), "nothing was opened");
        seats.assigned(NUMBER);
        assert!(seats.next().is_some() && seats.opened(NUMBER));
        assert!(seats.revoked(NUMBER, now + Duration::from_secs(9), Rc::clone(&release)) && waits(&release));
        // The group changes its mind: it still waits, and gets the partition back first.
        seats.assigned(NUMBER);
        assert!(seats.next().is_none() && waits(&release));
        seats.let_go(now);
        assert!(waits(&release));
        seats.let_go(now + Duration::from_secs(9));
        assert!(!waits(&release));
        seats.free(NUMBER);
        assert!(seats.next().is_some_and(|wish| wish.insists), "the group has assigned it anew");
    }

    #[test]
    fn a_partition_that_was_taken_from_here_is_not_taken_back_by_force() {
        let mut seats: Seats<()> = Seats::new(9);
        seats.assigned(NUMBER);
        assert!(seats.next().is_some_and(|wish| wish.insists) && seats.opened(NUMBER));
        seats.ended(NUMBER);
        seats.free(NUMBER);
        let wish = seats.next().expect("it is still assigned");
        assert!(!wish.insists);
        // The group has noticed: it is somebody else's.
        assert!(!seats.lost(NUMBER) && !*wish.wanted.borrow());
        seats.free(NUMBER);
        assert!(seats.next().is_none() && seats.wanted() == 0);
    }

    #[test]
    fn no_more_partitions_are_taken_at_once_than_may_be() {
        let mut seats: Seats<()> = Seats::new(2);
        (0..5).for_each(|number| seats.assigned(number));
        let taken: Vec<i32> = std::iter::from_fn(|| seats.next()).map(|wish| wish.number).collect();
        assert_eq!((taken, seats.wanted()), (vec![0, 1], 5));
        assert!(seats.opened(0) && seats.lost(0) && seats.next().is_none(), "it is not closed yet");
        seats.free(0);
        assert!(seats.next().is_some_and(|wish| wish.number == 2));
    }
}
