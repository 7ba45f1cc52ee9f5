//! One trial of one peer.

use std::time::{Duration, Instant};

use crate::common::{self, Checker, Usage, fill_record, per_second};
use crate::device::Flushes;
use crate::peer::{BatchPeer, Peer, Plan};

#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) records_per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// Of the whole process, the writers' own part included.
    pub(crate) cpu_per_record: Duration,
    pub(crate) barriers: Option<u64>,
    /// What the device completed meanwhile, for everybody on the machine.
    pub(crate) device_flushes: Option<u64>,
}

/// What is read before the clock starts, and again after it stops.
struct Meter<'a> {
    usage: Usage,
    device: Option<(&'a Flushes, u64)>,
}

impl Meter<'_> {
    fn start(device: Option<&Flushes>) -> Meter<'_> {
        Meter { device: device.map(|device| (device, device.completed())), usage: Usage::now() }
    }

    fn stop(self, plan: Plan, took: Duration, mut latencies: Vec<Duration>) -> Trial {
        let cpu = Usage::now().since(&self.usage).cpu;
        let device_flushes = self.device.map(|(device, before)| device.completed() - before);
        latencies.sort_unstable();
        let at_percent = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
        Trial {
            records_per_second: per_second(plan.records, took),
            p50: at_percent(50),
            p99: at_percent(99),
            cpu_per_record: cpu.div_f64(plan.records as f64),
            barriers: None,
            device_flushes,
        }
    }
}

/// Every writer waits until its record is durable, then appends the next one.
pub(crate) fn closed_loop(peer: Box<dyn Peer>, plan: Plan, device: Option<&Flushes>) -> Trial {
    let records_per_writer = plan.records / plan.writers as u64;
    let barriers_before = peer.barriers();
    let meter = Meter::start(device);
    let append = |writer, record: &[u8]| peer.append_durable(writer, record);
    let measured = common::closed_loop(plan.writers, records_per_writer, plan.record_bytes, append, || ());
    let latencies = measured.calls.iter().map(|(began, returned)| *returned - *began).collect();
    let mut trial = meter.stop(plan, measured.took, latencies);
    trial.barriers = peer.barriers().zip(barriers_before).map(|(after, before)| after - before);
    let mut checker = Checker::new(plan.writers, plan.record_bytes);
    peer.finish_and_verify(&mut checker);
    checker.finish(records_per_writer);
    trial
}

/// One writer with a barrier each so many records. The latencies are those of the batches, staging included.
pub(crate) fn batches(
    mut peer: Box<dyn BatchPeer>,
    plan: Plan,
    each: u64,
    device: Option<&Flushes>,
) -> Trial {
    let mut record = vec![0; plan.record_bytes];
    let mut latencies = Vec::new();
    let mut sequence = 0;
    let meter = Meter::start(device);
    let started = Instant::now();
    while sequence < plan.records {
        let began = Instant::now();
        let end = (sequence + each).min(plan.records);
        while sequence < end {
            fill_record(&mut record, 0, sequence);
            peer.stage(&record);
            sequence += 1;
        }
        peer.barrier();
        latencies.push(began.elapsed());
    }
    let took = started.elapsed();
    let barriers = latencies.len() as u64;
    let mut trial = meter.stop(plan, took, latencies);
    trial.barriers = Some(barriers);
    let mut checker = Checker::new(1, plan.record_bytes);
    peer.finish_and_verify(&mut checker);
    checker.finish(plan.records);
    trial
}
