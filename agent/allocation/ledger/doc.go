// Package ledger counts which pod of the node holds which device, in integers,
// and which device each placeholder ID stands for.
//
// It decides what a pod gets: the devices that the scheduler committed to it, or
// those that the kubelet chose. It reads no file and calls nothing: package
// checkpoint says what the kubelet did, package cdi makes it so for containers.
package ledger
