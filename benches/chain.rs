//! What a barrier on a ring costs, by how its write and its sync are handed to the kernel; against `pwrite` and
//! `fdatasync`, alternating in one run. No log: one thread, one file of written zeros, which is read back and checked.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]
#![allow(unsafe_code, reason = "publishing entries is the kernel's contract")]

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod common;

fn main() {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    ring::main();
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod ring {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    use std::time::Instant;

    use io_uring::squeue::{Entry, Flags};
    use io_uring::{IoUring, opcode, types};

    use crate::common::{Setup, Usage, at_percent, fill_record, median};

    const RECORD_BYTES: usize = 264;
    /// The forms, and `pwrite` with `fdatasync`.
    const SIDES: usize = 10;
    const ENTRIES: u32 = 8;
    /// `RWF_DSYNC` of `pwritev2`.
    const RWF_DSYNC: i32 = 2;

    /// How a barrier reaches the kernel.
    #[derive(Clone, Copy, Debug, Default)]
    #[allow(clippy::struct_excessive_bools, reason = "six independent choices")]
    struct Form {
        name: &'static str,
        is_registered_file: bool,
        is_registered_buffer: bool,
        /// `RWF_DSYNC` instead of a linked FSYNC.
        is_dsync: bool,
        /// `IOSQE_ASYNC` on the write: straight to a worker, which then runs both.
        is_async: bool,
        /// `SINGLE_ISSUER` and `DEFER_TASKRUN`.
        is_deferred: bool,
        /// `COOP_TASKRUN`.
        is_cooperative: bool,
    }

    fn forms() -> [Form; SIDES - 1] {
        let linked = Form { name: "linked WRITE and FSYNC", ..Form::default() };
        [
            linked,
            Form { name: "  registered file", is_registered_file: true, ..linked },
            Form { name: "  registered buffer", is_registered_buffer: true, ..linked },
            Form {
                name: "  registered file and buffer",
                is_registered_file: true,
                is_registered_buffer: true,
                ..linked
            },
            Form { name: "  COOP_TASKRUN", is_cooperative: true, ..linked },
            Form { name: "  SINGLE_ISSUER, DEFER_TASKRUN", is_deferred: true, ..linked },
            Form { name: "  IOSQE_ASYNC", is_async: true, ..linked },
            Form { name: "RWF_DSYNC", is_dsync: true, ..linked },
            Form {
                name: "  registered file and buffer",
                is_dsync: true,
                is_registered_file: true,
                is_registered_buffer: true,
                ..linked
            },
        ]
    }

    /// A ring with what a form registers. The record is what every write hands out; the ring is dropped before it.
    struct Chain<'a> {
        ring: IoUring,
        form: Form,
        file: &'a File,
        record: &'a [u8],
    }

    impl Form {
        /// An error where this kernel lets nobody have such a ring.
        fn ring(self) -> io::Result<IoUring> {
            let mut builder = IoUring::builder();
            if self.is_deferred {
                builder.setup_single_issuer().setup_defer_taskrun();
            }
            if self.is_cooperative {
                builder.setup_coop_taskrun();
            }
            builder.build(ENTRIES)
        }
    }

    impl<'a> Chain<'a> {
        fn new(form: Form, file: &'a File, record: &'a [u8]) -> Self {
            let ring = form.ring().unwrap();
            if form.is_registered_file {
                ring.submitter().register_files(&[file.as_raw_fd()]).unwrap();
            }
            if form.is_registered_buffer {
                let buffer =
                    libc::iovec { iov_base: record.as_ptr().cast_mut().cast(), iov_len: record.len() };
                // SAFETY: the record outlives the ring, and nobody writes through the pointer: only writes to files use it.
                unsafe { ring.submitter().register_buffers(&[buffer]) }.unwrap();
            }
            Chain { ring, form, file, record }
        }

        fn entries(&self, offset: u64) -> [Entry; 2] {
            let (pointer, length) = (self.record.as_ptr(), u32::try_from(self.record.len()).unwrap());
            let rw_flags = if self.form.is_dsync { RWF_DSYNC } else { 0 };
            let plain = types::Fd(self.file.as_raw_fd());
            let registered = types::Fixed(0);
            let write = match (self.form.is_registered_file, self.form.is_registered_buffer) {
                (false, false) => {
                    opcode::Write::new(plain, pointer, length).offset(offset).rw_flags(rw_flags).build()
                }
                (true, false) => {
                    opcode::Write::new(registered, pointer, length).offset(offset).rw_flags(rw_flags).build()
                }
                (false, true) => opcode::WriteFixed::new(plain, pointer, length, 0)
                    .offset(offset)
                    .rw_flags(rw_flags)
                    .build(),
                (true, true) => opcode::WriteFixed::new(registered, pointer, length, 0)
                    .offset(offset)
                    .rw_flags(rw_flags)
                    .build(),
            };
            let mut flags = Flags::empty();
            if self.form.is_async {
                flags |= Flags::ASYNC;
            }
            if !self.form.is_dsync {
                flags |= Flags::IO_LINK;
            }
            let sync_flags = types::FsyncFlags::DATASYNC;
            let fsync = if self.form.is_registered_file {
                opcode::Fsync::new(registered).flags(sync_flags).build()
            } else {
                opcode::Fsync::new(plain).flags(sync_flags).build()
            };
            [write.flags(flags), fsync]
        }

        fn persist(&mut self, offset: u64) {
            let entries = self.entries(offset);
            let count = if self.form.is_dsync { 1 } else { 2 };
            // SAFETY: record and file outlive the ring, and nothing changes the record before all completions are there.
            unsafe { self.ring.submission().push_multiple(&entries[..count]) }.unwrap();
            self.ring.submit_and_wait(count).unwrap();
            for place in 0..count {
                let result = self.ring.completion().next().unwrap().result();
                let expected = if place == 0 { i32::try_from(self.record.len()).unwrap() } else { 0 };
                assert_eq!(result, expected, "{}", self.form.name);
            }
        }
    }

    /// What one form has measured.
    #[derive(Debug, Default)]
    struct Figures {
        p50_us: Vec<f64>,
        cpu_us: Vec<f64>,
        switches: Vec<f64>,
    }

    pub(super) fn main() {
        let setup = Setup::announce("chain");
        let forms = forms();
        if let Some(refusal) = forms.iter().find_map(|form| form.ring().err()) {
            println!("SKIP: not every form of ring can be had here: {refusal}");
            return;
        }
        let trials = setup.pick(24, 1);
        let barriers = setup.pick(500, 5);
        println!(
            "{RECORD_BYTES} bytes and a sync, {barriers} barriers in each of {trials} alternating trials; medians, p50 ratios by trial"
        );
        let mut record = [0; RECORD_BYTES];
        fill_record(&mut record, 1, 1);
        let file = zeroed_file(&setup, barriers);
        let mut figures: Vec<Figures> = (0..SIDES).map(|_| Figures::default()).collect();
        for trial in 0..trials {
            for place in 0..SIDES {
                // Ten sides: each of these steps meets all of them, so that none always follows the same one.
                let side = (trial + place * [1, 3, 7, 9][trial % 4]) % SIDES;
                let of = &mut figures[side];
                if side == 0 {
                    measure(of, barriers, |offset| {
                        file.write_all_at(&record, offset).unwrap();
                        file.sync_data().unwrap();
                    });
                } else {
                    let mut chain = Chain::new(forms[side - 1], &file, &record);
                    measure(of, barriers, |offset| chain.persist(offset));
                }
                take_back(&file, &record, barriers);
            }
        }
        let names = std::iter::once("pwrite, fdatasync").chain(forms.iter().map(|form| form.name));
        for (name, of) in names.zip(&figures) {
            let ratios: Vec<f64> = of.p50_us.iter().zip(&figures[0].p50_us).map(|(a, b)| a / b).collect();
            println!(
                "{name:<32}  p50 {:>4.0} us ({:.3})  CPU {:>3.0} us  {:.1} switches",
                median(&of.p50_us),
                median(&ratios),
                median(&of.cpu_us),
                median(&of.switches)
            );
        }
    }

    fn measure(figures: &mut Figures, barriers: u32, mut persist: impl FnMut(u64)) {
        let before = Usage::now();
        let mut sorted_us: Vec<f64> = (0..u64::from(barriers))
            .map(|barrier| {
                let started = Instant::now();
                persist(barrier * RECORD_BYTES as u64);
                started.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        let usage = Usage::now().since(&before);
        sorted_us.sort_by(f64::total_cmp);
        figures.p50_us.push(at_percent(&sorted_us, 50));
        figures.cpu_us.push(usage.cpu.as_secs_f64() * 1e6 / f64::from(barriers));
        #[allow(clippy::cast_precision_loss, reason = "figures for people")]
        figures.switches.push(usage.switches as f64 / f64::from(barriers));
    }

    fn zeroed_file(setup: &Setup, barriers: u32) -> File {
        let path = setup.path("file");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
        file.write_all_at(&vec![0; RECORD_BYTES * barriers as usize], 0).unwrap();
        file.sync_all().unwrap();
        file
    }

    /// Checks that every record is where it belongs, and writes zeros over them.
    fn take_back(file: &File, record: &[u8], barriers: u32) {
        let mut bytes = vec![0; RECORD_BYTES * barriers as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes.chunks(RECORD_BYTES).all(|chunk| chunk == record), "records are missing");
        bytes.fill(0);
        file.write_all_at(&bytes, 0).unwrap();
        file.sync_all().unwrap();
    }
}
