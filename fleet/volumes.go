package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"berth.dev/berth/api"
)

const (
	provisioner       = "berth.dev/simulated"
	claimProvisioner  = "volume.kubernetes.io/storage-provisioner"
	volumeProvisioner = "pv.kubernetes.io/provisioned-by"
	volumeFolder      = "/var/lib/berth-sim/" // on no real disk
	modesParameter    = "accessModes"         // of a StorageClass: those that it provides, with commas; "" is all
)

// claim is a PersistentVolumeClaim that may want a volume.
type claim struct {
	fleet *Fleet
	api   *v1.PersistentVolumeClaim
	alarm alarm
	tries int // that were in vain
}

// volume is a PersistentVolume that may be to delete.
type volume struct {
	fleet *Fleet
	api   *v1.PersistentVolume
	alarm alarm
	tries int // that were in vain
}

// tryAgain wakes a task after the given number of tries in vain, each later than the
// one before.
func (f *Fleet) tryAgain(a *alarm, tries int) {
	f.timers.set(a, f.now().Add(min(lookMost, lookFirst<<min(tries-1, 10))))
}

// watchVolumes starts the simulated provisioner.
func (f *Fleet) watchVolumes(ctx context.Context, wg *sync.WaitGroup) {
	claims := f.client.CoreV1().PersistentVolumeClaims("")
	follow(ctx, wg, f, &v1.PersistentVolumeClaim{}, taskStore(func(obj any) {
		f.files.note(obj.(*v1.PersistentVolumeClaim))
		if c := obj.(*v1.PersistentVolumeClaim); c.Annotations[claimProvisioner] == provisioner && c.Spec.VolumeName == "" && c.DeletionTimestamp == nil {
			t := &claim{fleet: f, api: c}
			t.alarm.task = t
			f.queue.Add(t)
		}
	}), "", "",
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return claims.List(ctx, o) },
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return claims.Watch(ctx, o) })
	volumes := f.client.CoreV1().PersistentVolumes()
	follow(ctx, wg, f, &v1.PersistentVolume{}, taskStore(func(obj any) {
		if v := obj.(*v1.PersistentVolume); v.Annotations[volumeProvisioner] == provisioner && v.Status.Phase == v1.VolumeReleased &&
			v.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete && v.DeletionTimestamp == nil {
			t := &volume{fleet: f, api: v}
			t.alarm.task = t
			f.queue.Add(t)
		}
	}), "", "",
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return volumes.List(ctx, o) },
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return volumes.Watch(ctx, o) })
}

// taskStore calls a function for each object that is new or has changed.
type taskStore func(obj any)

func (s taskStore) Add(obj any) error    { s(obj); return nil }
func (s taskStore) Update(obj any) error { s(obj); return nil }
func (s taskStore) Delete(any) error     { return nil }
func (s taskStore) Resync() error        { return nil }

func (s taskStore) Replace(list []any, _ string) error {
	for _, obj := range list {
		s(obj)
	}
	return nil
}

// run creates the volume of a claim, again until that succeeds or the claim needs
// none any more; the controller manager binds the two.
func (c *claim) run(ctx context.Context) {
	if c.api.Spec.StorageClassName == nil || !c.wanted(ctx) {
		return
	}
	err := c.provision(ctx)
	if err == nil || ctx.Err() != nil {
		return
	}
	if c.tries%4 == 0 {
		c.event(v1.EventTypeWarning, "ProvisioningFailed", err.Error())
	}
	c.tries++
	c.fleet.tryAgain(&c.alarm, c.tries)
}

// wanted reads a claim again that got no volume before, and reports whether it still
// wants one.
func (c *claim) wanted(ctx context.Context) bool {
	if c.tries == 0 {
		return true
	}
	now, err := c.fleet.client.CoreV1().PersistentVolumeClaims(c.api.Namespace).Get(ctx, c.api.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false
	}
	return err != nil || now.UID == c.api.UID && now.Spec.VolumeName == "" && now.DeletionTimestamp == nil
}

// provision creates the volume. One that is there already is not an error.
func (c *claim) provision(ctx context.Context) error {
	f, pvc := c.fleet, c.api
	class, err := f.client.StorageV1().StorageClasses().Get(ctx, *pvc.Spec.StorageClassName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("storageclass %q: %w", *pvc.Spec.StorageClassName, err)
	}
	if modes := class.Parameters[modesParameter]; modes != "" {
		for _, mode := range pvc.Spec.AccessModes {
			if !slices.Contains(strings.Split(modes, ","), string(mode)) {
				return fmt.Errorf("access mode %s is not supported: storage class %s provides %s", mode, class.Name, modes)
			}
		}
	}
	name := "pvc-" + string(pvc.UID)
	policy := v1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	kind := v1.HostPathDirectoryOrCreate
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			volumeProvisioner:       provisioner,
			api.AnnotationSimulated: "This volume is simulated by Berth: it holds no data.",
		}},
		Spec: v1.PersistentVolumeSpec{
			Capacity:                      v1.ResourceList{v1.ResourceStorage: pvc.Spec.Resources.Requests[v1.ResourceStorage]},
			AccessModes:                   pvc.Spec.AccessModes,
			StorageClassName:              class.Name,
			VolumeMode:                    pvc.Spec.VolumeMode,
			MountOptions:                  class.MountOptions,
			PersistentVolumeReclaimPolicy: policy,
			ClaimRef: &v1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: pvc.Namespace, Name: pvc.Name, UID: pvc.UID, ResourceVersion: pvc.ResourceVersion,
			},
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: volumeFolder + name, Type: &kind}},
		},
	}
	_, err = f.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	switch {
	case err == nil:
		c.event(v1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume "+name)
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("create volume %s: %w", name, err)
	}
	return nil
}

// event writes an event about the claim.
func (c *claim) event(kind, reason, message string) {
	c.fleet.events.add(c.api.Namespace, v1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.api.Namespace, Name: c.api.Name, UID: c.api.UID, ResourceVersion: c.api.ResourceVersion,
	}, v1.EventSource{Component: provisioner}, kind, reason, message)
}

// run deletes a volume whose claim is gone, again until that succeeds.
func (v *volume) run(ctx context.Context) {
	err := v.fleet.client.CoreV1().PersistentVolumes().Delete(ctx, v.api.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.api.UID}})
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		v.fleet.log.Debug("volume not deleted", "volume", v.api.Name, "error", err)
		if !apierrors.IsConflict(err) { // then it is another one by now
			v.tries++
			v.fleet.tryAgain(&v.alarm, v.tries)
		}
	}
	if ref := v.api.Spec.ClaimRef; err == nil && ref != nil && v.fleet.host != nil {
		v.fleet.host.Discard(ref.Namespace, ref.Name)
	}
}
