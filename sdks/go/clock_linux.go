package leasehold

import (
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7

// sinceBoot is CLOCK_BOOTTIME: Go's own monotonic time stands still while the machine is suspended.
func sinceBoot() time.Duration {
	var now syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		panic("the system has no CLOCK_BOOTTIME: " + errno.Error())
	}
	return time.Duration(now.Nano())
}
