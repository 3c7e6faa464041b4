// Package queue keeps the status of Queues, ends what their rules end, and says which idle
// notebooks stand in the way of workloads that wait. It counts pods by core/quota's Book, as
// the scheduler does, and admits nothing. While there is no Queue it watches no pods.
package queue
