package system

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Provisioner is who makes the volumes of the storage classes.
const Provisioner = "berth.dev/simulated"

// StorageClasses returns "standard", the default, and "fast-ssd". Both bind a
// claim at once, whatever its access mode, and delete the volume with it.
func StorageClasses() []runtime.Object {
	standard, fast := storageClass("standard"), storageClass("fast-ssd")
	standard.Annotations["storageclass.kubernetes.io/is-default-class"] = "true"
	return []runtime.Object{standard, fast}
}

func storageClass(name string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:        meta("", name, nil),
		Provisioner:       Provisioner,
		ReclaimPolicy:     new(v1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
	}
}
