// Package leasehold is a client of the lock server Leasehold: leases that renew themselves, and say when they are lost.
//
//	lease, err := client.Lock(ctx, "nightly", leasehold.TTL(30*time.Second), leasehold.Wait(time.Minute))
//	if err != nil {
//		return err
//	}
//	defer lease.Release(context.Background())
//	return report(lease.Context(), lease.FencingToken())
//
// # Time
//
// A deadline is the time at which a request was sent, plus what the server gave for it, less 1 % because clocks drift,
// less a margin to act in. So it comes before the end of the lease at the server, however long the answer took. The
// clock goes on while the machine is suspended (on Linux). The wall clock decides nothing.
//
// # What is not promised
//
// That you stop in time. A process can be paused anywhere, also between finding its lock held and writing. Only a
// fencing token, checked by what is written to, stops the late writer: see [Gate].
package leasehold
