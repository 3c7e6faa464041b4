// Package idle decides when an unused notebook is stopped: what counts as
// activity, when its user is warned, and when the warning has stood long enough. It
// takes what one look at a notebook found and answers with one step. It asks no
// server, reads no GPU and keeps no clock: package controller/idle does, and hands
// in what it found, and how much time has passed by a monotonic clock.
package idle
