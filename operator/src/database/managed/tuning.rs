//! Settings of PostgreSQL that follow from the memory, the volume and the number of its clients.
//!
//! The rules are those of the PostgreSQL documentation and of common practice: a quarter of the
//! memory for shared buffers, three quarters taken for cached, and what connections may take at
//! worst bounded by another quarter, so that the kernel never has to end the pod.

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Connections beside those of the servers: the superuser's reserve, a backup, people.
const OTHER_CONNECTIONS: u64 = 20;
/// The step in which connections grow. A change takes a restart, so another server pod should not
/// ask for one.
const CONNECTION_STEP: u64 = 100;

/// The basis of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Memory that the pod may take, bytes.
    pub memory: u64,
    /// Size of the volume, bytes.
    pub volume: u64,
    /// Most server pods at the same time.
    pub servers: u64,
    /// Most connections of each.
    pub connections: u64,
}

/// Settings by these rules; sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// `max_connections`
    pub max_connections: u64,
    /// `shared_buffers`
    pub shared_buffers: u64,
    /// `effective_cache_size`
    pub effective_cache_size: u64,
    /// `work_mem`
    pub work_mem: u64,
    /// `maintenance_work_mem`
    pub maintenance_work_mem: u64,
    /// `autovacuum_work_mem`
    pub autovacuum_work_mem: u64,
    /// `max_wal_size`
    pub max_wal_size: u64,
    /// `min_wal_size`
    pub min_wal_size: u64,
}

/// Returns the settings for the room there is.
#[must_use]
pub fn tuning(room: Room) -> Tuning {
    let Room {
        memory,
        volume,
        servers,
        connections,
    } = room;
    // A rolling update has one pod more for a while.
    let wanted = (servers + 1) * connections + OTHER_CONNECTIONS;
    let max_connections = wanted.div_ceil(CONNECTION_STEP) * CONNECTION_STEP;
    let max_wal_size = (volume / 10).clamp(256 * MIB, 16 * GIB);
    Tuning {
        max_connections,
        shared_buffers: (memory / 4).clamp(16 * MIB, 32 * GIB),
        effective_cache_size: (memory / 4 * 3).max(32 * MIB),
        work_mem: (memory / 4 / max_connections).clamp(MIB, 64 * MIB),
        maintenance_work_mem: (memory / 16).clamp(16 * MIB, 2 * GIB),
        // Three workers at a time.
        autovacuum_work_mem: (memory / 32).clamp(16 * MIB, GIB),
        max_wal_size,
        min_wal_size: (max_wal_size / 4).max(80 * MIB),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::default(GIB, 10 * GIB, [100, 256, 768, 2, 64, 32, 1024, 256])]
    #[case::small(256 * MIB, GIB, [100, 64, 192, 1, 16, 16, 256, 80])]
    #[case::large(64 * GIB, 500 * GIB, [100, 16_384, 49_152, 64, 2048, 1024, 16_384, 4096])]
    fn sizes_follow_from_the_room(
        #[case] memory: u64,
        #[case] volume: u64,
        #[case] expected: [u64; 8],
    ) {
        let room = Room {
            memory,
            volume,
            servers: 2,
            connections: 16,
        };
        let Tuning {
            max_connections,
            shared_buffers,
            effective_cache_size,
            work_mem,
            maintenance_work_mem,
            autovacuum_work_mem,
            max_wal_size,
            min_wal_size,
        } = tuning(room);
        let sizes = [
            shared_buffers,
            effective_cache_size,
            work_mem,
            maintenance_work_mem,
            autovacuum_work_mem,
            max_wal_size,
            min_wal_size,
        ];
        let found: Vec<u64> = std::iter::once(max_connections)
            .chain(sizes.map(|size| size / MIB))
            .collect();
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case(2, 16, 100)]
    #[case(4, 16, 100)]
    #[case(5, 16, 200)]
    #[case(32, 200, 6700)]
    fn every_server_gets_its_connections(
        #[case] servers: u64,
        #[case] connections: u64,
        #[case] expected: u64,
    ) {
        let room = Room {
            memory: GIB,
            volume: 10 * GIB,
            servers,
            connections,
        };
        assert_eq!(tuning(room).max_connections, expected);
    }

    proptest! {
        /// Everything fits at worst, from half a gibibyte on: buffers, every connection with a
        /// sort, an index being built, and three workers of autovacuum.
        #[test]
        fn the_memory_is_enough_at_worst(
            memory in GIB / 2..512 * GIB,
            volume in GIB..10_000 * GIB,
            servers in 1_u64..8,
        ) {
            let room = Room { memory, volume, servers, connections: 16 };
            let tuning = tuning(room);
            let worst = tuning.shared_buffers
                + tuning.max_connections * tuning.work_mem
                + tuning.maintenance_work_mem
                + 3 * tuning.autovacuum_work_mem;
            prop_assert!(worst <= memory, "{worst} of {memory}: {tuning:?}");
            prop_assert!(tuning.max_wal_size <= volume / 2, "{tuning:?} on {volume}");
        }
    }
}
