//go:build !linux

package simulation

import "time"

// threadSeconds is the time of day: this system does not tell a thread's CPU.
func threadSeconds() float64 { return float64(time.Now().UnixNano()) / 1e9 }
