package leasehold

import (
	"io"
	"time"
)

// watchPause is the pause after the server could not be watched for a while.
const watchPause = time.Second

// watch hears of the end of the lease when it ends, not when it is renewed. If the server cannot be watched, renewals
// still tell.
func (l *Lease) watch() {
	done := l.tenure.done
	for done.Err() == nil {
		if l.watchOnce() {
			l.tenure.lose(Ended)
			return
		}
		_ = sleepUntil(done, l.client.clock, l.client.clock.now().after(watchPause))
	}
}

// watchOnce says whether the server said that the lease is over.
func (l *Lease) watchOnce() bool {
	body := &watchLeaseRequest{OwnerID: l.acquired.OwnerID, LeaseID: l.acquired.LeaseID, FencingToken: l.acquired.FencingToken}
	stream, err := l.client.calls.watchLease(l.tenure.done, l.Name(), body)
	if err != nil {
		return hasCode(err, "LEASE_NOT_HELD")
	}
	defer stream.Close()
	parser := &parser{}
	piece := make([]byte, 4096)
	for {
		n, err := stream.Read(piece)
		messages, tooLong := parser.push(piece[:n])
		for _, message := range messages {
			if message.event == "ended" {
				return true
			}
		}
		if err != nil || tooLong != nil || n == 0 && err == io.EOF {
			return false
		}
	}
}
