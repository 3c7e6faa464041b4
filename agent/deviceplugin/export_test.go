package deviceplugin

import "time"

// Quick sets delays at which a test need not wait, and checks the same.
func (o Options) Quick() Options {
	o.times = o.withDefaults().times
	o.times.settle, o.times.back, o.times.drain = 20*time.Millisecond, 50*time.Millisecond, time.Second
	o.times.most = 200 * time.Millisecond
	return o
}

// Returning has a plugin that stood back look d after the other one has gone.
func (o Options) Returning(d time.Duration) Options {
	o.times = o.withDefaults().times
	o.times.back = d
	return o
}

// Allowing gives the node d to answer.
func (o Options) Allowing(d time.Duration) Options {
	o.times = o.withDefaults().times
	o.times.allow = d
	return o
}
