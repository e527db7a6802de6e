//! Forges files of a database: bytes of anybody's choice, with checksums that are right. So what stands behind the
//! checksums, the decoders, meets bytes that no engine has written. It knows the formats from `docs/formats.md` only.

#![allow(dead_code)] // Each user has its own part of this.

use std::path::{Path, PathBuf};

use heddledb::testing::{Disk, SimulatedDisk};

/// A log is written in pages of this many bytes.
pub const PAGE: usize = 4096;
/// Bytes of a log block's header.
pub const LOG_HEADER: usize = 68;
/// Bytes of a block's header before log format 3, and the magic of such blocks.
const OLDER_LOG_HEADER: usize = 48;
const OLDER_LOG_MAGIC: &[u8] = b"HBLK";
const LOG_MAGIC: &[u8] = b"HBL3";
/// Bytes of a part's header, and of its blocks' headers.
pub const PART_HEADER: usize = 40;
pub const PART_BLOCK_HEADER: usize = 32;

/// A database on a disk whose files are forged.
pub struct Forge {
    pub disk: SimulatedDisk,
    directory: PathBuf,
    uuid: [u8; 16],
}

/// A block of the log: where it stands, and what it says.
#[derive(Clone, Debug)]
pub struct LogBlock {
    pub path: PathBuf,
    pub offset: usize,
    pub sequence: u64,
    pub epoch: u64,
    pub segment: u32,
    /// Term and time; 0 before log format 3.
    pub term: u64,
    pub time: u64,
    pub payload: Vec<u8>,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn put_u32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// The length of the header of the block that begins here, if one does.
fn log_header(bytes: &[u8]) -> Option<usize> {
    match &bytes[..4] {
        LOG_MAGIC => Some(LOG_HEADER),
        OLDER_LOG_MAGIC => Some(OLDER_LOG_HEADER),
        _ => None,
    }
}

impl Forge {
    /// A copy of this disk's database, to be forged.
    pub fn of(disk: &SimulatedDisk, directory: &str) -> Forge {
        let disk = disk.crash_image(1);
        let manifest = disk.bytes(&Path::new(directory).join("MANIFEST")).expect("a manifest");
        let uuid = manifest[12..28].try_into().expect("sixteen bytes");
        Forge { disk, directory: directory.into(), uuid }
    }

    /// Another copy.
    pub fn again(&self) -> Forge {
        Forge { disk: self.disk.crash_image(1), directory: self.directory.clone(), uuid: self.uuid }
    }

    /// A checksum of the log's blocks and of the parts'.
    fn seeded_checksum(&self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.uuid), bytes)
    }

    /// The files of a folder whose names end like this, in order.
    pub fn files(&self, folder: &str, ending: &str) -> Vec<PathBuf> {
        let folder = self.directory.join(folder);
        let names = self.disk.list(&folder).unwrap_or_default();
        let names = names.into_iter().filter(|name| name.to_string_lossy().ends_with(ending));
        names.map(|name| folder.join(name)).collect()
    }

    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        self.disk.bytes(path).expect("a file")
    }

    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        self.disk.put_bytes(path, bytes).expect("its directory is there");
    }

    /// Every block of the log, in order.
    pub fn log_blocks(&self) -> Vec<LogBlock> {
        let mut blocks = Vec::new();
        for path in self.files("log", ".log") {
            let bytes = self.bytes(&path);
            let mut offset = PAGE;
            while offset < bytes.len() {
                let header = &bytes[offset..];
                let length = u32_at(header, 12) as usize;
                if let Some(bytes) = log_header(header) {
                    let payload = header[bytes..bytes + length].to_vec();
                    let (sequence, epoch, segment) =
                        (u64_at(header, 16), u64_at(header, 24), u32_at(header, 32));
                    let (term, time) = match bytes {
                        LOG_HEADER => (u64_at(header, 52), u64_at(header, 60)),
                        _ => (0, 0),
                    };
                    let path = path.clone();
                    blocks.push(LogBlock { path, offset, sequence, epoch, segment, term, time, payload });
                    offset += (bytes + length).next_multiple_of(PAGE);
                } else {
                    offset += PAGE;
                }
            }
        }
        blocks
    }

    /// Puts a block there that is a group of its own; only if its segment has room for it. Blocks of format 3 behind it are made
    /// to follow it.
    pub fn put_log_block(&self, block: &LogBlock) {
        let mut bytes = self.bytes(&block.path);
        let mut written = vec![0; (LOG_HEADER + block.payload.len()).next_multiple_of(PAGE)];
        if block.offset + written.len() > bytes.len() {
            return;
        }
        written[..4].copy_from_slice(LOG_MAGIC);
        put_u32(&mut written, 8, self.seeded_checksum(&block.payload));
        put_u32(&mut written, 12, block.payload.len() as u32);
        written[16..24].copy_from_slice(&block.sequence.to_le_bytes());
        written[24..32].copy_from_slice(&block.epoch.to_le_bytes());
        put_u32(&mut written, 32, block.segment);
        put_u32(&mut written, 40, 1);
        written[52..60].copy_from_slice(&block.term.max(1).to_le_bytes());
        written[60..68].copy_from_slice(&block.time.to_le_bytes());
        let sum = self.seeded_checksum(&written[8..LOG_HEADER]);
        put_u32(&mut written, 4, sum);
        written[LOG_HEADER..LOG_HEADER + block.payload.len()].copy_from_slice(&block.payload);
        bytes[block.offset..block.offset + written.len()].copy_from_slice(&written);
        self.put(&block.path, bytes);
        self.chain_log();
    }

    /// Gives each block of format 3 the checksum of the header before it.
    pub fn chain_log(&self) {
        let mut before = 0;
        for block in self.log_blocks() {
            let mut bytes = self.bytes(&block.path);
            let header = &mut bytes[block.offset..];
            if log_header(header) == Some(LOG_HEADER) && block.sequence > 1 {
                put_u32(header, 48, before);
                let sum = self.seeded_checksum(&header[8..LOG_HEADER]);
                put_u32(header, 4, sum);
            }
            before = u32_at(header, 4);
            self.put(&block.path, bytes);
        }
    }

    /// Appends a group with this payload behind the last one.
    pub fn append_to_log(&self, payload: &[u8]) {
        let blocks = self.log_blocks();
        let last = blocks.last().expect("a block");
        let header = if last.term == 0 { OLDER_LOG_HEADER } else { LOG_HEADER };
        let offset = last.offset + (header + last.payload.len()).next_multiple_of(PAGE);
        let (sequence, epoch) = (last.sequence + 1, last.epoch + 1);
        self.put_log_block(&LogBlock { offset, sequence, epoch, payload: payload.to_vec(), ..last.clone() });
    }

    /// Makes the checksums of a part's blocks right again, as far as blocks can be distinguished, and the header's.
    pub fn seal_part(&self, bytes: &mut [u8]) {
        if bytes.len() >= PART_HEADER {
            let sum = crc32c::crc32c(&bytes[..PART_HEADER - 4]);
            put_u32(bytes, PART_HEADER - 4, sum);
        }
        let mut at = PART_HEADER;
        while at + PART_BLOCK_HEADER <= bytes.len() {
            let length = u32_at(bytes, at + 12) as usize;
            let start = at + PART_BLOCK_HEADER;
            let Some(payload) = bytes.get(start..start.saturating_add(length)) else { return };
            let sum = self.seeded_checksum(payload);
            put_u32(bytes, at + 8, sum);
            let sum = self.seeded_checksum(&bytes[at + 8..start]);
            put_u32(bytes, at + 4, sum);
            at = start + length;
        }
    }

    /// Makes the checksum at a file's end right: that of a manifest of any kind.
    pub fn seal_manifest(bytes: &mut [u8]) {
        if let Some(end) = bytes.len().checked_sub(4) {
            let sum = crc32c::crc32c(&bytes[..end]);
            put_u32(bytes, end, sum);
        }
    }

    /// Makes the checksum of a segment's header right.
    pub fn seal_segment_header(bytes: &mut [u8]) {
        if bytes.len() >= PAGE {
            let sum = crc32c::crc32c(&bytes[..PAGE - 4]);
            put_u32(bytes, PAGE - 4, sum);
        }
    }
}

/// Puts an input of a fuzzer where a decoder reads it.
pub type Forger = fn(&Forge, &[u8]);

/// Every decoder of bytes from disk, with the folder of its inputs.
pub const KINDS: [(&str, Forger); 5] = [
    ("redo", Forge::append_to_log),
    ("part", forge_part),
    ("checkpoint-manifest", forge_checkpoint_manifest),
    ("segment-header", forge_segment_header),
    ("manifest", forge_manifest),
];

/// The input is the blocks of the last part; the manifest is made to fit its length.
fn forge_part(forge: &Forge, input: &[u8]) {
    let (Some(path), Some(manifest)) =
        (forge.files("checkpoint", ".part").pop(), forge.files("checkpoint", ".manifest").pop())
    else {
        return;
    };
    let mut bytes = forge.bytes(&path);
    let old = bytes.len() as u64;
    bytes.truncate(PART_HEADER);
    bytes.extend_from_slice(input);
    forge.seal_part(&mut bytes);
    let mut listed = forge.bytes(&manifest);
    // The length stands where the old one does: as a number of eight bytes it is hardly anywhere else.
    if let Some(at) = listed.windows(8).rposition(|window| window == old.to_le_bytes()) {
        listed[at..at + 8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    }
    Forge::seal_manifest(&mut listed);
    forge.put(&manifest, listed);
    forge.put(&path, bytes);
}

fn forge_checkpoint_manifest(forge: &Forge, input: &[u8]) {
    let Some(path) = forge.files("checkpoint", ".manifest").pop() else { return };
    let mut bytes = input.to_vec();
    if bytes.len() >= 28 {
        // Else every input would end as another database's.
        bytes[12..28].copy_from_slice(&forge.uuid);
    }
    Forge::seal_manifest(&mut bytes);
    forge.put(&path, bytes);
}

fn forge_segment_header(forge: &Forge, input: &[u8]) {
    let Some(path) = forge.files("log", ".log").pop() else { return };
    let mut bytes = forge.bytes(&path);
    let length = input.len().min(40);
    bytes[..length].copy_from_slice(&input[..length]);
    bytes[16..32].copy_from_slice(&forge.uuid);
    Forge::seal_segment_header(&mut bytes);
    forge.put(&path, bytes);
}

fn forge_manifest(forge: &Forge, input: &[u8]) {
    let mut bytes = input.to_vec();
    Forge::seal_manifest(&mut bytes);
    forge.put(&forge.directory.join("MANIFEST"), bytes);
}
