/* SPDX-License-Identifier: GPL-2.0 */
/* What older kernels lack: Kbuild greps their headers. */
#ifndef _SIWM_COMPAT_H
#define _SIWM_COMPAT_H

#include <linux/netdevice.h>

#include "siw.h"

#ifndef SIWM_HAVE_GET_NETDEV
/* Older kernels do not export ib_device_get_netdev(); siw stores the net_device. */
#define ib_device_get_netdev(dev, port) siwm_get_netdev(to_siw_dev(dev))
static inline struct net_device *siwm_get_netdev(struct siw_device *sdev)
{
	dev_hold(sdev->netdev);
	return sdev->netdev;
}
#endif

#endif /* _SIWM_COMPAT_H */
