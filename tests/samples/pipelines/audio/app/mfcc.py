import numpy as np
from scipy.fftpack import dct
from scipy.signal import butter, lfilter


def framesig(sig, size, hop):
    n = 1 + max(0, (len(sig) - size) // hop)
    idx = np.arange(size)[None, :] + hop * np.arange(n)[:, None]
    return sig[idx] * np.hamming(size)


def melbank(nfilt, nfft, rate):
    low, high = 0, 2595 * np.log10(1 + (rate / 2) / 700)
    hz = 700 * (10 ** (np.linspace(low, high, nfilt + 2) / 2595) - 1)
    bins = np.floor((nfft + 1) * hz / rate).astype(int)
    fb = np.zeros((nfilt, nfft // 2 + 1))
    for m in range(1, nfilt + 1):
        for k in range(bins[m - 1], bins[m]):
            fb[m - 1, k] = (k - bins[m - 1]) / (bins[m] - bins[m - 1])
        for k in range(bins[m], bins[m + 1]):
            fb[m - 1, k] = (bins[m + 1] - k) / (bins[m + 1] - bins[m])
    return fb


def mfcc(sig, rate=8000, nfft=256, nfilt=12):
    sig = np.append(sig[0], sig[1:] - 0.97 * sig[:-1])
    b, a = butter(2, 0.1, btype="high")
    sig = lfilter(b, a, sig)
    frames = framesig(sig, nfft, nfft // 2)
    power = np.abs(np.fft.rfft(frames, nfft)) ** 2 / nfft
    energies = np.maximum(power @ melbank(nfilt, nfft, rate).T, 1e-10)
    return dct(np.log(energies), type=2, axis=1, norm="ortho")[:, :8]


def voiced(sig, threshold=0.02, hang=3):
    """Segments that are loud, with hang-over."""
    segments, start, quiet = [], None, 0
    for i in range(0, len(sig), 64):
        rms = float(np.sqrt(np.mean(sig[i : i + 64] ** 2)))
        if rms > threshold:
            if start is None:
                start = i
            quiet = 0
        elif start is not None:
            quiet += 1
            if quiet >= hang:
                segments.append((start, i))
                start = None
    if start is not None:
        segments.append((start, len(sig)))
    return segments


def features(sig):
    sig = np.asarray(sig, dtype=np.float64)
    if len(sig) < 256:
        sig = np.pad(sig, (0, 256 - len(sig)))
    c = mfcc(sig)
    delta = np.diff(c, axis=0) if len(c) > 1 else np.zeros_like(c)
    return np.concatenate([c.mean(0), c.std(0), delta.mean(0)]), voiced(sig)
