/*
 * cudart_texture.c - texture and surface objects as the runtime's functions: made, checked and
 * destroyed. No kernel reads them. See cudart.h.
 */
#include "cudart.h"

#include "handles.h"

static int create(unsigned long long *out, const void *resource) {
    struct device *device;
    if (!out || !resource)
        return SD_INVALID_VALUE;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    *out = (uintptr_t)sd_handle_new(HANDLE_OBJECT, 1);
    return sd_end_with(SD_OK);
}

static int destroy(unsigned long long object) {
    int status = sd_begin();
    if (status || !object)
        return status ? status : sd_end_with(SD_OK);
    void *found = sd_handle((void *)(uintptr_t)object, HANDLE_OBJECT);
    if (found)
        sd_handle_delete(found);
    return sd_end_with(found ? SD_OK : SD_INVALID_HANDLE);
}

CUDART(cudaCreateTextureObject,
       (cudaTextureObject_t * pTexObject, const struct cudaResourceDesc *pResDesc,
        const struct cudaTextureDesc *pTexDesc, const struct cudaResourceViewDesc *pResViewDesc),
       (pTexObject, pResDesc, pTexDesc, pResViewDesc)) {
    (void)pTexDesc, (void)pResViewDesc;
    return ATTEMPT(create(pTexObject, pResDesc));
}

CUDART(cudaDestroyTextureObject, (cudaTextureObject_t texObject), (texObject)) {
    return ATTEMPT(destroy(texObject));
}

CUDART(cudaCreateSurfaceObject,
       (cudaSurfaceObject_t * pSurfObject, const struct cudaResourceDesc *pResDesc),
       (pSurfObject, pResDesc)) {
    return ATTEMPT(create(pSurfObject, pResDesc));
}

CUDART(cudaDestroySurfaceObject, (cudaSurfaceObject_t surfObject), (surfObject)) {
    return ATTEMPT(destroy(surfObject));
}
