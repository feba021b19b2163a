package suffrage

import (
	"syscall"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of Linux. It counts also while the machine is suspended.
const clockBoottime = 7

// Now reads the clock. The clock of Linux is CLOCK_BOOTTIME, the one that the node's deadlines refer to.
func Now() Moment {
	var shown syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&shown)), 0)
	if errno != 0 {
		// A client that cannot read its clock must not lead: a wrong time would be unsafe.
		panic("suffrage: cannot read CLOCK_BOOTTIME: " + errno.Error())
	}
	return Moment(shown.Nano())
}

// sharesClock tells that other processes of this machine read the same clock, so that deadlines can be compared with it.
const sharesClock = true
