//! Memory for the nodes of one index: objects of few sizes, on cache lines of their own, cut from chunks.
//!
//! ```text
//! chunk, aligned to its own size: ┌ head: live, cut, free ─┬ object ┬ object ┬ … not cut yet ┐
//! ```
//!
//! A general allocator pays for each aligned object with a gap before it, which no later object of the size fits into:
//! with two million random keys, these gaps were half the memory of an ordered index. Here an object costs its size, and a
//! chunk whose objects have all been freed goes back to the system.
//!
//! # Invariants
//!
//! - The objects of a chunk have one size. The chunk of an object is found by the object's address.
//! - A chunk is in its shelf's list exactly when it has room. An empty chunk is freed, unless it is the only one with room.
//!
//! # Concurrency
//!
//! One mutex: nodes come and go with splits and merges, not with each row.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use parking_lot::Mutex;

use crate::base::atomics::{AtomicU64, Ordering};

/// The size of a chunk, and its alignment.
const CHUNK_BYTES: usize = if cfg!(any(test, heddle_model)) { 16 << 10 } else { 256 << 10 };
/// The alignment of objects.
const LINE_BYTES: usize = 64;

/// The nodes of one index.
#[derive(Default)]
pub(crate) struct Pool {
    shelves: Mutex<Vec<Shelf>>,
    /// Bytes of all objects that have been cut and whose chunks are still there.
    cut_bytes: AtomicU64,
}

/// The chunks of one size of objects.
struct Shelf {
    object_bytes: usize,
    with_room: Vec<Chunk>,
}

/// A chunk, by the address of its head.
#[derive(Clone, Copy, PartialEq)]
struct Chunk(NonNull<Head>);

// SAFETY: a chunk is plain memory; its head is used by the holder of the pool's lock alone.
unsafe impl Send for Chunk {}

#[repr(C, align(64))]
struct Head {
    /// The number of objects in use.
    live: usize,
    /// The number of objects that have ever been cut.
    cut: usize,
    /// The number of objects that it has room for.
    capacity: usize,
    /// The first of the freed objects.
    free: *mut Free,
    /// Its place in the shelf's list, if it has room.
    place: usize,
}

/// The beginning of a freed object.
struct Free {
    next: *mut Free,
}

const _: () = assert!(size_of::<Head>() == LINE_BYTES);

/// The number of bytes that an object of this type takes.
const fn object_bytes<T>() -> usize {
    size_of::<T>().next_multiple_of(LINE_BYTES)
}

impl Pool {
    /// Bytes that the nodes take, and those that were freed and can be used again.
    pub(crate) fn bytes(&self) -> u64 {
        // Relaxed: a statistic.
        self.cut_bytes.load(Ordering::Relaxed)
    }

    /// Puts an object into the pool's memory: [`take_out`](Self::take_out) takes it out again.
    pub(crate) fn put<T>(&self, object: T) -> NonNull<T> {
        const { assert!(align_of::<T>() <= LINE_BYTES && object_bytes::<T>() <= CHUNK_BYTES - LINE_BYTES) };
        let memory = self.shelf(object_bytes::<T>(), |shelf| shelf.allocate(&self.cut_bytes)).cast::<T>();
        // SAFETY: the memory is an object's, which is as large and aligned as a T needs it, and not in use.
        unsafe { memory.write(object) };
        memory
    }

    /// Takes an object out, and with it its memory.
    ///
    /// # Safety
    /// `put` of this pool gave it, no thread uses it any more, and it is taken out once.
    pub(crate) unsafe fn take_out<T>(&self, object: NonNull<T>) {
        // SAFETY: the caller's promise, for both.
        unsafe {
            object.drop_in_place();
            self.shelf(object_bytes::<T>(), |shelf| shelf.free(object.cast(), &self.cut_bytes));
        }
    }

    /// Gives back the chunks that hold no object, also those that are kept for the next one.
    pub(crate) fn trim(&self) {
        for shelf in &mut *self.shelves.lock() {
            shelf.trim(&self.cut_bytes);
        }
    }

    fn shelf<R>(&self, object_bytes: usize, use_it: impl FnOnce(&mut Shelf) -> R) -> R {
        let mut shelves = self.shelves.lock();
        let place = shelves.iter().position(|shelf| shelf.object_bytes == object_bytes);
        let place = place.unwrap_or_else(|| {
            shelves.push(Shelf { object_bytes, with_room: Vec::new() });
            shelves.len() - 1
        });
        use_it(&mut shelves[place])
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let shelves = self.shelves.get_mut().drain(..);
        let chunks = shelves.flat_map(|Shelf { object_bytes, with_room }| {
            with_room.into_iter().map(move |chunk| (object_bytes, chunk))
        });
        for (object_bytes, chunk) in chunks {
            // SAFETY: the index is gone, so that the chunk, which has room, is empty: `Shelf::free` has kept it for later.
            unsafe {
                debug_assert_eq!((*chunk.0.as_ptr()).live, 0, "an index's node has outlived it");
                chunk.free(object_bytes);
            }
        }
    }
}

/// The layout of a chunk with room for this many objects.
fn chunk_layout(capacity: usize, object_bytes: usize) -> Layout {
    match Layout::from_size_align(LINE_BYTES + capacity * object_bytes, CHUNK_BYTES) {
        Ok(layout) => layout,
        Err(_) => unreachable!("a chunk is small"),
    }
}

impl Chunk {
    /// A chunk with room for this many objects.
    fn make(capacity: usize, object_bytes: usize, place: usize) -> Option<Chunk> {
        // SAFETY: the layout is not empty: it has the head.
        let head = NonNull::new(unsafe { alloc(chunk_layout(capacity, object_bytes)) })?.cast::<Head>();
        // SAFETY: the chunk was just made, and has room for its head.
        unsafe { head.write(Head { live: 0, cut: 0, capacity, free: ptr::null_mut(), place }) };
        Some(Chunk(head))
    }

    /// Gives the chunk back.
    ///
    /// # Safety
    /// It holds no object, and no list has it.
    unsafe fn free(self, object_bytes: usize) {
        // SAFETY: the caller's promise; it was made with this layout.
        unsafe {
            let layout = chunk_layout((*self.0.as_ptr()).capacity, object_bytes);
            dealloc(self.0.as_ptr().cast(), layout);
        }
    }
}

impl Shelf {
    fn allocate(&mut self, cut_bytes: &AtomicU64) -> NonNull<u8> {
        let chunk = match self.with_room.last() {
            Some(&chunk) => chunk,
            None => self.make_chunk(),
        };
        // SAFETY: chunks on the list are alive, and the pool's lock, which the caller holds, guards their heads.
        let head = unsafe { &mut *chunk.0.as_ptr() };
        head.live += 1;
        let object = match NonNull::new(head.free) {
            Some(freed) => {
                // SAFETY: a freed object begins with what `free` wrote there.
                head.free = unsafe { freed.as_ref() }.next;
                freed.cast()
            }
            None => {
                let offset = LINE_BYTES + head.cut * self.object_bytes;
                head.cut += 1;
                cut_bytes.fetch_add(self.object_bytes as u64, Ordering::Relaxed);
                // SAFETY: the chunk has room, and nothing was freed: so the next object lies inside of it.
                unsafe { chunk.0.cast::<u8>().add(offset) }
            }
        };
        if head.live == head.capacity {
            self.with_room.pop();
        }
        object
    }

    fn make_chunk(&mut self) -> Chunk {
        let (capacity, place) = ((CHUNK_BYTES - LINE_BYTES) / self.object_bytes, self.with_room.len());
        // Where the system refuses a whole chunk, it may have room for one object.
        let chunk = Chunk::make(capacity, self.object_bytes, place)
            .or_else(|| Chunk::make(1, self.object_bytes, place))
            .unwrap_or_else(|| handle_alloc_error(chunk_layout(1, self.object_bytes)));
        self.with_room.push(chunk);
        chunk
    }

    /// # Safety
    /// The object is one of this shelf's, and no thread uses it any more.
    unsafe fn free(&mut self, object: NonNull<u8>, cut_bytes: &AtomicU64) {
        let start = object.as_ptr().map_addr(|address| address & !(CHUNK_BYTES - 1)).cast::<Head>();
        // SAFETY: chunks are aligned to their size, so that an object's chunk begins there; the pool's lock, which the caller
        // holds, guards the head; and the object is free to be written to.
        let (chunk, head) = unsafe {
            let head = &mut *start;
            let freed = object.cast::<Free>();
            freed.write(Free { next: head.free });
            head.free = freed.as_ptr();
            (Chunk(NonNull::new_unchecked(start)), head)
        };
        if head.live == head.capacity {
            head.place = self.with_room.len();
            self.with_room.push(chunk);
        }
        head.live -= 1;
        if head.live == 0 && self.with_room.len() > 1 {
            cut_bytes.fetch_sub((head.cut * self.object_bytes) as u64, Ordering::Relaxed);
            self.forget(head.place);
            // SAFETY: it holds no object, and has just left the list.
            unsafe { chunk.free(self.object_bytes) };
        }
    }

    fn trim(&mut self, cut_bytes: &AtomicU64) {
        // From the end on: `forget` moves the last one, which was looked at, to the place of the one that it removes.
        for place in (0..self.with_room.len()).rev() {
            let chunk = self.with_room[place];
            // SAFETY: as in `allocate`.
            let head = unsafe { chunk.0.as_ref() };
            if head.live == 0 {
                cut_bytes.fetch_sub((head.cut * self.object_bytes) as u64, Ordering::Relaxed);
                self.forget(place);
                // SAFETY: it holds no object, and has just left the list.
                unsafe { chunk.free(self.object_bytes) };
            }
        }
    }

    /// Takes a chunk off the list.
    fn forget(&mut self, place: usize) {
        self.with_room.swap_remove(place);
        if let Some(moved) = self.with_room.get(place) {
            // SAFETY: as in `allocate`.
            unsafe { (*moved.0.as_ptr()).place = place };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object whose content tells it apart, and that counts its drops.
    struct Object<'d> {
        number: [u64; 11],
        drops: &'d std::cell::Cell<usize>,
    }

    impl Drop for Object<'_> {
        fn drop(&mut self) {
            self.drops.set(self.drops.get() + 1);
        }
    }

    const OBJECTS_OF_A_CHUNK: usize = (CHUNK_BYTES - LINE_BYTES) / object_bytes::<Object<'_>>();

    fn chunks_with_room(pool: &Pool) -> usize {
        pool.shelves.lock().iter().map(|shelf| shelf.with_room.len()).sum()
    }

    #[test]
    fn objects_keep_their_content_and_are_aligned() {
        let (pool, drops) = (Pool::default(), std::cell::Cell::new(0));
        let all: Vec<_> = (0..1_000)
            .map(|number| (pool.put(Object { number: [number; 11], drops: &drops }), pool.put(number)))
            .collect();
        assert_eq!(pool.bytes() as usize, 1_000 * (object_bytes::<Object<'_>>() + LINE_BYTES));
        for (number, (object, other)) in (0..).zip(all) {
            assert!(object.addr().get().is_multiple_of(LINE_BYTES));
            // SAFETY: both are alive until they are taken out.
            unsafe {
                assert_eq!((object.as_ref().number, *other.as_ref()), ([number; 11], number));
                pool.take_out(object);
                pool.take_out(other);
            }
        }
        assert_eq!(drops.get(), 1_000);
    }

    #[test]
    fn freed_memory_serves_the_next_object_of_the_size() {
        let pool = Pool::default();
        let (first, second) = (pool.put(1_u64), pool.put(2_u64));
        // SAFETY: it is used no more.
        unsafe { pool.take_out(first) };
        let third = pool.put(3_u64);
        assert_eq!((third, pool.bytes() as usize), (first, 2 * LINE_BYTES));
        // SAFETY: as above.
        unsafe {
            assert_eq!((*second.as_ref(), *third.as_ref()), (2, 3));
            pool.take_out(second);
            pool.take_out(third);
        }
    }

    #[test]
    fn a_chunk_without_objects_goes_back_unless_it_is_the_last_one_with_room() {
        let (pool, drops) = (Pool::default(), std::cell::Cell::new(0));
        let put = || pool.put(Object { number: [0; 11], drops: &drops });
        let mut chunks: Vec<Vec<_>> =
            (0..4).map(|_| (0..OBJECTS_OF_A_CHUNK).map(|_| put()).collect()).collect();
        assert_eq!(chunks_with_room(&pool), 0);
        let chunk_bytes = (OBJECTS_OF_A_CHUNK * object_bytes::<Object<'_>>()) as u64;
        assert_eq!(pool.bytes(), 4 * chunk_bytes);
        // One object of each: all have room, and none is empty.
        for chunk in &mut chunks {
            // SAFETY: it is used no more.
            unsafe { pool.take_out(chunk.swap_remove(7)) };
        }
        assert_eq!((chunks_with_room(&pool), pool.bytes()), (4, 4 * chunk_bytes));
        for (left, chunk) in chunks.into_iter().enumerate() {
            // SAFETY: as above.
            chunk.into_iter().for_each(|object| unsafe { pool.take_out(object) });
            let there = (4 - left - 1).max(1);
            assert_eq!((chunks_with_room(&pool), pool.bytes()), (there, there as u64 * chunk_bytes));
        }
        assert_eq!(drops.get(), 4 * OBJECTS_OF_A_CHUNK);
    }

    #[test]
    fn a_trimmed_pool_has_no_chunk_without_objects() {
        let (pool, drops) = (Pool::default(), std::cell::Cell::new(0));
        let made: Vec<_> =
            (0..1000).map(|number| pool.put(Object { number: [number; 11], drops: &drops })).collect();
        pool.trim();
        assert!(pool.bytes() > 0);
        let (kept, freed) = made.split_first().expect("a thousand");
        for &object in freed {
            // SAFETY: each is taken out once, and not used any more.
            unsafe { pool.take_out(object) };
        }
        pool.trim();
        assert_eq!(chunks_with_room(&pool), 1);
        // SAFETY: as above.
        unsafe {
            assert_eq!(kept.as_ref().number[0], 0);
            pool.take_out(*kept);
        }
        pool.trim();
        assert_eq!((chunks_with_room(&pool), pool.bytes()), (0, 0));
        let again = pool.put(Object { number: [1; 11], drops: &drops });
        // SAFETY: as above.
        unsafe { pool.take_out(again) };
        assert_eq!(drops.get(), 1001);
    }

    #[test]
    fn threads_share_a_pool() {
        let pool = Pool::default();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..200 {
                        let own: Vec<_> = (0..20).map(|at| (pool.put([thread, round, at]), at)).collect();
                        for (object, at) in own {
                            // SAFETY: it is this thread's, until it is taken out.
                            unsafe {
                                assert_eq!(*object.as_ref(), [thread, round, at]);
                                pool.take_out(object);
                            }
                        }
                    }
                });
            }
        });
        assert!(pool.bytes() <= (4 * 20 * LINE_BYTES + CHUNK_BYTES) as u64, "{}", pool.bytes());
    }
}
