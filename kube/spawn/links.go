package spawn

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/explain"
)

// defaultClass marks the storage class of claims that name none.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

func namespace(f *Facts) (finding.Status, string, string) {
	switch {
	case f.Found == nil:
		return finding.Fail, "there is no namespace " + f.Space, "kubectl create namespace " + f.Space + ", or give another with -n"
	case f.Found.DeletionTimestamp != nil:
		return finding.Fail, "namespace " + f.Space + " is being deleted", "wait until it is gone and create it again, or set another with -n"
	}
	return finding.OK, f.Space, ""
}

func controller(f *Facts) (finding.Status, string, string) {
	const begin = "start `berth controller`, or apply deploy/controller-deployment.yaml"
	switch {
	case !f.Served:
		return finding.Fail, "the API server knows no Notebooks", begin
	case f.Mode == "":
		return finding.Warn, "no controller of Berth's has run in this cluster; whether another runs notebooks is not known", begin
	case f.Mode == "off":
		return finding.Fail, "Berth's controllers leave notebooks alone (mode off)", "start them with --notebooks own, or see that another controller runs them"
	case f.Lease != nil && silent(f) > 0:
		return finding.Fail, fmt.Sprintf("Berth's controllers have not renewed their lease for %v", silent(f).Round(time.Second)), "see why they do not run: kubectl get pods -A | grep berth-controller"
	case f.Why != "":
		return finding.OK, f.Mode + ": " + f.Why, ""
	}
	return finding.OK, "Berth's, mode " + f.Mode, ""
}

// silent is for how long a lease has run out; 0 is that it has not.
func silent(f *Facts) time.Duration {
	s := &f.Lease.Spec
	if s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return 0
	}
	late := f.Now.Sub(s.RenewTime.Time)
	if late <= time.Duration(*s.LeaseDurationSeconds)*time.Second {
		return 0
	}
	return late
}

func profiles(f *Facts) (finding.Status, string, string) {
	if f.Wrong != nil {
		return finding.Fail, f.Wrong.Error(), "`berth profiles list -o wide` shows profiles, groups and options, `berth profiles render` what one gives"
	}
	seen := "renders as notebook " + f.Object.Name
	if f.Profile != "" {
		seen = f.Profile + " " + seen
	}
	if len(f.Warnings) > 0 {
		var all []string
		for _, w := range f.Warnings {
			all = append(all, w.Key+": "+w.Text)
		}
		return finding.Warn, seen + "; " + strings.Join(all, "; "), "`berth profiles lint` says where in the values file"
	}
	return finding.OK, seen, ""
}

func rights(f *Facts) (finding.Status, string, string) {
	give := fmt.Sprintf("kubectl create rolebinding notebooks -n %s --clusterrole=berth-notebook-user --user=%s", f.Space, f.User)
	switch {
	case f.UserMay:
		return finding.OK, f.User + " may make notebooks in " + f.Space, ""
	case f.AskerMay:
		return finding.Warn, f.User + " may make no notebooks in " + f.Space + "; you may, for " + f.User, give
	}
	return finding.Fail, "neither " + f.User + " nor you may make notebooks in " + f.Space, give
}

func existing(f *Facts) (finding.Status, string, string) {
	switch {
	case f.Existing == "":
		return finding.OK, "none of the name " + f.Object.Name + " yet", ""
	case f.Trouble:
		return finding.Fail, f.Object.Name + " is there: " + f.Existing, fmt.Sprintf("`berth notebook why %s -n %s` tells more", f.Object.Name, f.Space)
	}
	return finding.Warn, f.Object.Name + " is there already: " + f.Existing, fmt.Sprintf("`berth notebook open %s -n %s` opens it, `berth notebook start` starts a stopped one", f.Object.Name, f.Space)
}

func volumes(f *Facts) (finding.Status, string, string) {
	var fine []string
	for _, name := range explain.ClaimsOf(f.Pod) {
		i := slices.IndexFunc(f.Claims, func(c *v1.PersistentVolumeClaim) bool { return c.Name == name })
		if i < 0 && f.Home != nil && f.Home.Name == name {
			class, found := classOf(f.Home, f.Classes)
			if !found {
				return finding.Fail, fmt.Sprintf("volume claim %s is to be made, and there is no storage class %s", name, class), "name one of kubectl get storageclasses in storage.dynamic.storageClass, or make one the default"
			}
			fine = append(fine, name+" will be made of class "+class)
			continue
		}
		if i < 0 {
			return finding.Fail, "volume claim " + name + " does not exist in namespace " + f.Space, "create it: the notebook waits until then"
		}
		if seen, do := unusable(f, f.Claims[i]); seen != "" {
			return finding.Fail, seen, do
		}
		fine = append(fine, name+" is there")
	}
	if len(fine) == 0 {
		return finding.OK, "none: what is written there is gone with the notebook", ""
	}
	return finding.OK, strings.Join(fine, ", "), ""
}

// classOf is the storage class of a claim, and whether there is one.
func classOf(c *v1.PersistentVolumeClaim, list []storagev1.StorageClass) (name string, found bool) {
	name = "(the default)"
	if c.Spec.StorageClassName != nil {
		name = *c.Spec.StorageClassName
	}
	for i := range list {
		if list[i].Name == name || c.Spec.StorageClassName == nil && list[i].Annotations[defaultClass] == "true" {
			return list[i].Name, true
		}
	}
	return name, false
}

// unusable says why a pod cannot have a claim that is there; "" is that it can.
func unusable(f *Facts, c *v1.PersistentVolumeClaim) (seen, do string) {
	switch {
	case c.DeletionTimestamp != nil:
		return "volume claim " + c.Name + " is being deleted", "see which pod still uses it, and create it again when it is gone"
	case c.Status.Phase == v1.ClaimLost:
		return "volume claim " + c.Name + " has lost its volume", "restore the volume, or create the claim again"
	case c.Status.Phase == v1.ClaimPending && !waitsForPod(c, f.Classes):
		return "volume claim " + c.Name + " has no volume yet", fmt.Sprintf("kubectl describe pvc %s -n %s says why", c.Name, f.Space)
	}
	for _, p := range f.Pods {
		if p.Namespace == f.Space && p.Spec.NodeName != "" && p.Name != f.Pod.Name && slices.Contains(explain.ClaimsOf(p), c.Name) &&
			slices.Contains(c.Spec.AccessModes, v1.ReadWriteOncePod) {
			return fmt.Sprintf("volume claim %s is used by pod %s, and only one pod may at a time", c.Name, p.Name), "stop that one"
		}
	}
	return "", ""
}

// waitsForPod reports whether a claim gets its volume only when a pod uses it.
func waitsForPod(c *v1.PersistentVolumeClaim, list []storagev1.StorageClass) bool {
	return slices.ContainsFunc(list, func(s storagev1.StorageClass) bool {
		return c.Spec.StorageClassName != nil && s.Name == *c.Spec.StorageClassName && s.VolumeBindingMode != nil && *s.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	})
}

func quota(f *Facts) (finding.Status, string, string) {
	if overQuota(f.Refusal) {
		facts := reasons.Facts{Namespace: f.Space, Name: f.Object.Name, Others: "something else that holds it"}
		_, message := facts.Explain(f.Refusal)
		return finding.Fail, message, "`berth gpus` shows who holds what"
	}
	if short := explain.QuotaRoom(f.Quotas, f.Pod, &v1.Pod{}); short != nil {
		return finding.Fail, short.String(), "stop what uses it (`berth gpus`), ask for less, or ask for a larger quota"
	}
	if len(f.Quotas) == 0 {
		return finding.OK, "none in " + f.Space, ""
	}
	return finding.OK, "there is room", ""
}

// overQuota reports whether it is a quota that refuses.
func overQuota(refusal string) bool {
	return strings.Contains(refusal, "exceeded quota: ") || strings.Contains(refusal, "failed quota: ")
}

func admission(f *Facts) (finding.Status, string, string) {
	if overQuota(f.Refusal) {
		return finding.OK, "", "" // told as the quota's
	}
	if f.Refusal == "" {
		return finding.OK, "the API server would take its pod", ""
	}
	facts := reasons.Facts{Namespace: f.Space, Name: f.Object.Name, Others: "something else that holds it"}
	_, message := facts.Explain(f.Refusal)
	return finding.Fail, message, "change the profile, or ask an administrator of the namespace"
}
