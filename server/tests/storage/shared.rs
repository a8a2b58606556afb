//! The tests that every shared store has to pass, on a store in the memory of this process.

use leasehold_testkit::cluster::World;

leasehold_testkit::leadership_tests!(World::in_memory);
