package leasehold

import (
	"io"
	"time"
)

// watchPause is the pause after the server could not be watched for a while.
const watchPause = time.Second

// watch hears of the end of the lease when it ends, not when it is renewed. If the server cannot be watched, renewals
// still tell.
func (h *Holding) watch(lock string, proof *watchLeaseRequest) {
	done := h.tenure.done
	for done.Err() == nil {
		if h.watchOnce(lock, proof) {
			h.tenure.lose(Ended)
			return
		}
		_ = sleepUntil(done, h.client.clock, h.client.clock.now().after(watchPause))
	}
}

// watchOnce says whether the server said that the lease is over.
func (h *Holding) watchOnce(lock string, proof *watchLeaseRequest) bool {
	stream, err := h.client.calls.watchLease(h.tenure.done, lock, proof)
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
