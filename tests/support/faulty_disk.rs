//! A disk that fails as disks do: what was not synced may be lost, torn or out of order.
//!
//! There are two images. *Live* is what a process reads, with all it wrote; *durable* is what is
//! on the platters. A sync makes them equal. When the power fails, of each write that was not
//! synced all, nothing or some sectors (of 512 bytes or 4 KiB) are durable, in any order, and the
//! file may have its old or its new length; a seed decides. After a failed sync part of what it
//! was to write is lost for good, although it can still be read and later syncs succeed.
//!
//! A backend belongs to one run. When the power has failed, that run's backend answers nothing
//! but errors, so what still holds it cannot touch the disk of the next run.
//!
//! What this file does not do: it fails no reads but those of a run that is over, and it knows
//! nothing of what is stored.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gaggle_node::store::{Store, StoreError, StoreOptions, StoreSource};
use redb::StorageBackend;

/// A disk; clones are the same one.
#[derive(Clone, Debug)]
pub struct FaultyDisk(Arc<Mutex<Platter>>);

/// What happens at one of the writes and syncs to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails.
    Io,
    /// It fails for want of room.
    Full,
    /// The power fails before it.
    PowerCut,
    /// The process is killed before it; what it wrote lives on in the system.
    Kill,
}

#[derive(Clone, Debug)]
struct Platter {
    live: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// Counts power failures: a backend of an earlier run is of no use.
    run: u64,
    power: bool,
    full: bool,
    /// Writes, changes of length and syncs so far.
    done: u64,
    planned: Option<(u64, Fault)>,
    random: u64,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Length(usize),
}

impl FaultyDisk {
    /// An empty disk that fails as this seed says.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Platter {
            live: Vec::new(),
            durable: Vec::new(),
            unsynced: Vec::new(),
            run: 0,
            power: true,
            full: false,
            done: 0,
            planned: None,
            random: seed,
        })))
    }

    /// Another disk with the same images, that fails as this seed says.
    #[must_use]
    pub fn copy(&self, seed: u64) -> Self {
        let mut platter = self.lock().clone();
        platter.random = seed;
        Self(Arc::new(Mutex::new(platter)))
    }

    /// The disk as a process has it that starts now.
    #[must_use]
    pub fn backend(&self) -> impl StorageBackend + use<> {
        Backend { disk: self.clone(), run: self.lock().run }
    }

    /// Opens a store on it.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(&self) -> Result<Store, StoreError> {
        Store::open_backend(self.backend(), &StoreOptions::cached(CACHE))
    }

    /// A source of stores for a node. Each opening finds what is durable: a node that opens its
    /// store again has dropped what the system believes to have written. Without power there is
    /// nothing to open until [`FaultyDisk::power_on`].
    #[must_use]
    pub fn source(&self) -> StoreSource {
        let disk = self.clone();
        StoreSource::new(move || {
            if disk.lock().power {
                disk.crash();
            }
            disk.open()
        })
    }

    /// Lets the n-th write or sync from now fail, counted from 1.
    pub fn fail_at(&self, nth: u64, fault: Fault) {
        let mut platter = self.lock();
        platter.planned = Some((platter.done + nth, fault));
    }

    /// From now on there is no room for anything, until [`FaultyDisk::make_room`].
    pub fn fill_up(&self) {
        self.lock().full = true;
    }

    /// There is room again.
    pub fn make_room(&self) {
        self.lock().full = false;
    }

    /// Whether what was planned is still to come.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.lock().planned.is_some()
    }

    /// The power fails now; nothing works until it is back.
    pub fn power_off(&self) {
        self.lock().power_off();
    }

    /// The power is back.
    pub fn power_on(&self) {
        self.lock().power = true;
    }

    /// The power fails and comes back.
    pub fn crash(&self) {
        self.power_off();
        self.power_on();
    }

    /// Flips a bit of the byte that lies so far behind each place where `needle` stands, durable
    /// or not; how many there were. Pages of older commits are damaged with the present ones.
    pub fn flip_bit(&self, needle: &[u8], behind: usize) -> usize {
        let mut platter = self.lock();
        let found = platter.live.windows(needle.len()).enumerate();
        let found = found.filter(|(_, window)| *window == needle).map(|(at, _)| at + behind);
        let places: Vec<usize> = found.collect();
        let Platter { live, durable, .. } = &mut *platter;
        for image in [live, durable] {
            for place in &places {
                if let Some(byte) = image.get_mut(*place) {
                    *byte ^= 4;
                }
            }
        }
        places.len()
    }

    fn lock(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Platter {
    /// What is planned for the write or sync that comes now.
    fn next(&mut self) -> Option<Fault> {
        self.done += 1;
        let due = self.planned.is_some_and(|(at, _)| at == self.done);
        let planned = if due { self.planned.take().map(|(_, fault)| fault) } else { None };
        planned.or_else(|| self.full.then_some(Fault::Full))
    }

    fn fail(&mut self, fault: Fault) -> io::Error {
        match fault {
            Fault::Io => io::Error::other("an injected failure"),
            Fault::Full => io::ErrorKind::StorageFull.into(),
            Fault::PowerCut => {
                self.power_off();
                no_power()
            }
            Fault::Kill => {
                self.run += 1;
                no_power()
            }
        }
    }

    fn power_off(&mut self) {
        self.lose_some();
        self.live.clone_from(&self.durable);
        self.run += 1;
        self.power = false;
        self.planned = None;
    }

    /// Some of what was not synced becomes durable, and the rest never will.
    fn lose_some(&mut self) {
        let mut changes = std::mem::take(&mut self.unsynced);
        let mut lengths = changes.iter().filter_map(|change| match change {
            Change::Length(length) => Some(*length),
            Change::Write { .. } => None,
        });
        if let Some(length) = lengths.next_back()
            && self.chance(2)
        {
            self.durable.resize(length, 0);
        }
        while !changes.is_empty() {
            let at = self.below(changes.len());
            if let Change::Write { offset, data } = changes.swap_remove(at) {
                self.keep_some(offset, &data);
            }
        }
    }

    /// All of a write, nothing of it, or some of its sectors.
    fn keep_some(&mut self, offset: usize, data: &[u8]) {
        let (all, sector) = (self.chance(3), if self.chance(2) { 512 } else { 4096 });
        let none = self.chance(2);
        let mut at = 0;
        while at < data.len() {
            let end = ((offset + at) / sector + 1) * sector - offset;
            let end = end.min(data.len());
            if all || (!none && self.chance(2)) {
                put(&mut self.durable, offset + at, &data[at..end]);
            }
            at = end;
        }
    }

    fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Change::Length(length) => self.durable.resize(length, 0),
                Change::Write { offset, data } => put(&mut self.durable, offset, &data),
            }
        }
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// The next number of a splitmix64 sequence.
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).expect("it is below a usize")
    }
}

/// What lies beyond the end of the file is lost with its length.
fn put(image: &mut [u8], offset: usize, data: &[u8]) {
    if let Some(place) = image.get_mut(offset..) {
        let length = place.len().min(data.len());
        place[..length].copy_from_slice(&data[..length]);
    }
}

fn no_power() -> io::Error {
    io::Error::other("there is no power")
}

/// The disk as one run sees it.
#[derive(Debug)]
struct Backend {
    disk: FaultyDisk,
    run: u64,
}

impl Backend {
    fn platter(&self) -> io::Result<MutexGuard<'_, Platter>> {
        let platter = self.disk.lock();
        if platter.run == self.run && platter.power { Ok(platter) } else { Err(no_power()) }
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.platter()?.live.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platter = self.platter()?;
        let offset = to_usize(offset)?;
        let there = platter.live.get(offset..offset + out.len());
        out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let length = to_usize(length)?;
        let mut platter = self.platter()?;
        if let Some(fault) = platter.next() {
            return Err(platter.fail(fault));
        }
        platter.live.resize(length, 0);
        platter.unsynced.push(Change::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut platter = self.platter()?;
        match platter.next() {
            None => {
                platter.sync();
                Ok(())
            }
            Some(fault @ (Fault::Io | Fault::Full)) => {
                platter.lose_some();
                Err(platter.fail(fault))
            }
            Some(fault @ (Fault::PowerCut | Fault::Kill)) => Err(platter.fail(fault)),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = to_usize(offset)?;
        let mut platter = self.platter()?;
        if let Some(fault) = platter.next() {
            return Err(platter.fail(fault));
        }
        let there = platter.live.get_mut(offset..offset + data.len());
        there.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        platter.unsynced.push(Change::Write { offset, data: data.to_vec() });
        Ok(())
    }
}

fn to_usize(number: u64) -> io::Result<usize> {
    usize::try_from(number).map_err(io::Error::other)
}

/// Small, so that pages are read and written and not only remembered.
const CACHE: usize = 1024 * 1024;
