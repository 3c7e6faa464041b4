// Package request reads what a pod asks for: its GPUs, in every syntax that Berth accepts, the
// gang it belongs to, its owner, and its turn among pods that wait. It reads the pod alone;
// which devices a pod has is in packages commit and devices.
package request
