// Package readings keeps a day of readings of a cluster: of the exporters of its GPUs, and of what the meter knows of holders, queues, and cost. It evaluates the
// alerts over them, and serves both as Prometheus does. Neither the scheduler nor an agent waits for it.
package readings
