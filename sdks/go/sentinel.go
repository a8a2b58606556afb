package leasehold

import (
	"encoding/json"
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
		if isOver, how := h.watchOnce(lock, proof); isOver {
			h.tenure.loseBy(Ended, how)
			return
		}
		_ = sleepUntil(done, h.client.clock, h.client.clock.now().after(watchPause))
	}
}

// watchOnce says whether the server said that the lease is over, and how that was.
func (h *Holding) watchOnce(lock string, proof *watchLeaseRequest) (bool, string) {
	stream, err := h.client.calls.watchLease(h.tenure.done, lock, proof)
	if err != nil {
		return hasCode(err, "LEASE_NOT_HELD"), ""
	}
	defer stream.Close()
	parser := &parser{}
	piece := make([]byte, 4096)
	for {
		n, err := stream.Read(piece)
		messages, tooLong := parser.push(piece[:n])
		for _, message := range messages {
			if message.event == "ended" {
				return true, howItWas(message)
			}
		}
		if err != nil || tooLong != nil || n == 0 && err == io.EOF {
			return false, ""
		}
	}
}

// howItWas is lock "a": revoked: host is gone, or lock "a": expired.
func howItWas(m message) string {
	var said struct {
		LockName string `json:"lock_name"`
		How      string `json:"how"`
		Reason   string `json:"reason"`
	}
	if json.Unmarshal([]byte(m.data), &said) != nil || said.How == "" {
		return ""
	}
	how := label(said.LockName) + ": " + said.How
	if said.Reason != "" {
		how += ": " + said.Reason
	}
	return how
}
