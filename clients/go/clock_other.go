//go:build !linux

package suffrage

import "time"

var start = time.Now()

// Now reads the clock: the monotonic clock of Go, which may stop while the machine is suspended.
func Now() Moment {
	return Moment(time.Since(start))
}

// sharesClock tells that other processes do not read the same clock: a deadline of a node cannot be compared with it.
const sharesClock = false
