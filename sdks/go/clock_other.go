//go:build !linux

package leasehold

import "time"

var started = time.Now()

// sinceBoot is Go's monotonic time, from the start of the process. It may stand still while the machine is suspended.
func sinceBoot() time.Duration { return time.Since(started) }
